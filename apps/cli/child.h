#pragma once

#include <string>
#include <vector>

namespace accrue::app {

struct ChildResult {
  int exit_status;     // -1 if a signal ended it, 127 if it could not be started
  std::string output;  // stdout and stderr
};

// Runs a program, found as a shell finds it, and waits for it. Throws Error if no process can be
// made.
ChildResult run_program(const std::string& program, const std::vector<std::string>& arguments);
// Runs this program with other arguments in a new process.
ChildResult run_self(const std::vector<std::string>& arguments);

}  // namespace accrue::app
