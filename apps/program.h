#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/bench/commands.h"
#include "apps/commands/export.h"
#include "apps/commands/info.h"
#include "apps/commands/plan.h"

namespace accrue::app {

// The options of all commands but domains' own.
struct Asked {
  Options options;
  PlanOptions plan;
  InfoOptions info;
  OnnxOptions onnx;
  BenchTrainOptions bench_train;
  BenchMemoryOptions bench_memory;
  BenchKernelsOptions bench_kernels;
  std::vector<std::string> run_directories;
  std::string page = "report.html", shell;
};

// Does what the arguments say, and returns the exit status. Throws what its commands throw.
int run_program(int argc, char** argv);

// Takes the arguments of a command, such as {"train", "--lr", "0.1"}, as the program does, and does
// `work` in place of the command's. Throws Error with the program's message for wrong arguments,
// and what `work` throws.
void with_arguments(Asked& asked, std::vector<std::string> arguments,
                    const std::function<void()>& work);

// An option as help shows it.
struct OptionHelp {
  std::string name;  // "micro-batch"
  std::string group, takes, value, help;
  bool is_flag;
};
// The options of commands, such as "train", in the order of their help.
std::map<std::string, std::vector<OptionHelp>> options_of(const std::vector<std::string>& commands);

}  // namespace accrue::app
