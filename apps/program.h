#pragma once

#include <string>
#include <vector>

#include "apps/bench/commands.h"
#include "apps/commands/commands_of_networks.h"

namespace accrue::app {

// The options of all commands, except commands of domains.
struct Asked : AskedOfNetworks {
  BenchTrainOptions bench_train;
  BenchMemoryOptions bench_memory;
  BenchKernelsOptions bench_kernels;
  std::vector<std::string> run_directories;
  std::string page = "report.html", shell;
};

// Runs the command that the arguments ask for and returns the exit status. Throws what the command
// throws.
int run_program(int argc, char** argv);

}  // namespace accrue::app
