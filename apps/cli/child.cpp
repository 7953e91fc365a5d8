#include "apps/cli/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/inside.h"

namespace accrue::app {

ChildResult run_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::array<int, 2> output;
  check(pipe(output.data()) == 0, "cannot make a pipe: {}", std::strerror(errno));
  std::vector<std::string> copies{program};
  copies.insert(copies.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t pid = fork();
  check(pid >= 0, "cannot start a process: {}", std::strerror(errno));
  if (pid == 0) {
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    close(output[0]);
    close(output[1]);
    for (const int ignored : {SIGPIPE, SIGXFSZ}) std::signal(ignored, SIG_DFL);
    execvp(program.c_str(), argv.data());
    _exit(127);
  }
  close(output[1]);
  ChildResult result;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = read(output[0], buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    result.output.append(buffer.data(), static_cast<size_t>(n));
  }
  close(output[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    check(errno == EINTR, "lost a child process: {}", std::strerror(errno));
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

ChildResult run_self(const std::vector<std::string>& arguments) {
  return run_program("/proc/self/exe", arguments);
}

}  // namespace accrue::app
