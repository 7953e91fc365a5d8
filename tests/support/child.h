#pragma once

// The program as a process that a test sends signals to while it runs.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/cli.h"

namespace accrue::test {

class Child {
 public:
  // Its output and errors go to the file `output`.
  Child(const std::string& arguments, const std::string& output) : output_(output) {
    const std::string command =
        "exec " + program_path + " " + arguments + device_arguments() + " >'" + output + "' 2>&1";
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    // If the tests run under nohup, they ignore SIGHUP; the child must not.
    std::signal(SIGHUP, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  // Polls `condition`, because the time that a start takes depends on the machine and the
  // sanitizers.
  template <class Condition>
  void wait_until(Condition condition) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!condition()) {
      INFO(text());
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // The exit status, or 128 and the number of the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text() const { return file_bytes(output_); }

 private:
  std::string output_;
  pid_t pid_ = -1;
};

}  // namespace accrue::test
