// The program, and its files, when nobody reads its output, or when a write fails.

#include "apps/cli/messages.h"

#include <fcntl.h>
#include <pty.h>

#include <cstdlib>

#include "tests/support/child.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

std::string training() { return "train --model mlp-small --data " + few_digits().path().string(); }

// Runs the program as the writer of a pipe, and returns the program's own exit status.
int status_before(const std::string& reader, const std::string& arguments, const Folder& folder) {
  const std::string said = folder / "status";
  shell(fmt::format("{{ {} {} 2>{}; echo $? >{}; }} | {}", program_path, arguments,
                    folder / "errors", said, reader));
  return std::stoi(file_bytes(said));
}

// Sets a variable of the environment while alive.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    if (value) ::setenv(name, value, 1);
    else ::unsetenv(name);
  }
  ~Variable() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    else ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("lines are drawn over only where a terminal knows how", "[output]") {
  int controller = -1, terminal = -1;
  if (::openpty(&controller, &terminal, nullptr, nullptr, nullptr) != 0)
    SKIP_LOUDLY("no terminal can be opened here");
  const Variable no_colour("NO_COLOR", nullptr);
  for (const auto& [term, expected] :
       {std::pair{"xterm", true}, {"dumb", false}, {"", false}, {(const char*)nullptr, false}}) {
    const Variable variable("TERM", term);
    REQUIRE(app::draws_over(terminal) == expected);
  }
  const Variable term("TERM", "xterm");
  {
    const Variable empty("NO_COLOR", "");
    REQUIRE(app::draws_over(terminal));
  }
  const Variable asked("NO_COLOR", "1");
  REQUIRE(!app::draws_over(terminal));
  ::close(terminal);
  ::close(controller);
}

TEST_CASE("a message that standard error cannot take does not end the program", "[output]") {
  const Folder folder;
  const auto ends = [](const std::string& arguments, int status, const std::string& text) {
    const Output output = shell(program_path + " " + arguments);
    INFO(arguments << "\n" << output.text);
    REQUIRE(output.status == status);
    REQUIRE_THAT(output.text, ContainsSubstring(text));
  };
  ends("--bogus 2>/dev/full", 2, "there is no option --bogus");
  ends("train --data nowhere 2>&-", 1, "accrue: error: ");
  ends("--version >/dev/full 2>/dev/full", 1, "");
  ends("--version >&-", 1, "standard output: Bad file descriptor");
  // A file does not take the number of a closed standard stream.
  ends("info --model mlp-small --json " + (folder / "json") + " 2>&- >&-", 1, "");
  REQUIRE(nlohmann::json::accept(file_bytes(folder / "json")));
  // If standard error fails, a warning goes to standard output, even with --quiet.
  ends("train --quiet --model cnn-bn --width 0.25 --steps 1 --data " +
           few_digits().path().string() + " --save " + (folder / "w") + " 2>/dev/full",
       0, "warning: BatchNorm");
  REQUIRE(fs::exists(folder / "w"));
}

TEST_CASE("a run whose reader goes ends as by Ctrl-C", "[output]") {
  const Folder folder;
  const std::string run = training() + " --epochs 100000 --log-every 1 --checkpoint-dir ";
  for (const std::string name : {"lines", "json"}) {
    const std::string json = name == "json" ? " --json -" : "";
    const int status = status_before(
        "head -2", run + (folder / name) + json + " --save " + (folder / name + ".w"), folder);
    INFO(file_bytes(folder / "errors"));
    REQUIRE(status == 128 + SIGPIPE);
    REQUIRE(fs::exists(folder / name + ".w"));
    REQUIRE(!fs::is_empty(folder / name));
    REQUIRE_THAT(file_bytes(folder / "errors"), ContainsSubstring("the reader of the output"));
  }
  // Other commands write their files, and print nothing.
  REQUIRE(status_before("true", "plan --model mlp-small --memory 1GiB --json " + (folder / "plan"),
                        folder) == 128 + SIGPIPE);
  REQUIRE(nlohmann::json::accept(file_bytes(folder / "plan")));
  REQUIRE(file_bytes(folder / "errors").empty());
}

TEST_CASE("output for programs is appended to a file that standard output is", "[output]") {
  const Folder folder;
  const std::string out = folder / "out";
  folder.TemporaryDirectory::write("out", "first\n");
  succeed(training() + " --steps 1 --quiet --json - >>" + out);
  REQUIRE_THAT(file_bytes(out), StartsWith("first\n{\"epoch\":1"));
}

TEST_CASE("a run goes on when its terminal is closed", "[output]") {
  const Folder folder;
  const std::string weights = folder / "w", json = folder / "json",
                    data = few_digits().path().string();
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid < 0) SKIP_LOUDLY("no terminal can be opened here");
  if (pid == 0) {
    std::signal(SIGHUP, SIG_DFL);
    ::execl(program_path.c_str(), "accrue", "train", "--model", "mlp-small", "--epochs", "100000",
            "--data", data.c_str(), "--json", json.c_str(), "--save", weights.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  std::array<char, 4096> said;
  while (!fs::exists(json) || fs::file_size(json) == 0)
    REQUIRE(::read(terminal, said.data(), said.size()) > 0);
  ::close(terminal);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 1);  // its last output is lost
  REQUIRE(fs::exists(weights));
}

TEST_CASE("a limit on the size of files is an error that names the file", "[output]") {
  const Folder folder;
  const std::string run = program_path + " " + training() + " --steps 40 --quiet ";
  for (const std::string& option :
       {"--save " + (folder / "w"), "--checkpoint-dir " + (folder / "c"),
        "--json " + (folder / "j"), "--log-dir " + (folder / "l")}) {
    const Output output = shell("( ulimit -f 16; " + run + option + " )");
    INFO(option << "\n" << output.text);
    REQUIRE(output.status == 1);
    REQUIRE_THAT(output.text,
                 ContainsSubstring("File too large") && ContainsSubstring(folder.path().string()));
  }
  REQUIRE(!fs::exists(folder / "w"));
  REQUIRE(fs::is_empty(folder / "c"));
}

}  // namespace accrue::test
