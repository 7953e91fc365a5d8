#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/commands.h"
#include "apps/commands/export.h"
#include "apps/commands/info.h"
#include "apps/commands/plan.h"
#include "apps/domains.h"

namespace accrue::app {

// The options of all commands but domains' own.
struct Asked {
  Request options{all_domains()};
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

// The settings of the program's commands, by a command's name, in the order of its help. They refer
// to `asked`.
std::map<std::string, Settings> settings_of_commands(Asked& asked);

// What another program asks of a command: values for its settings, by their names.
class CommandCall {
 public:
  // Refers to `asked`.
  CommandCall(Asked& asked, const std::string& command);
  ~CommandCall();
  CommandCall(const CommandCall&) = delete;
  CommandCall& operator=(const CommandCall&) = delete;

  const Settings& settings() const;
  // Sets it, as Setting::give() does, and counts it as given. Throws Error.
  void give(const Setting& setting, const std::string& text);
  // Gives what a file of the program's --config says and was not given before. Throws Error.
  void read_config(const std::string& path);
  // Does `work` in place of the command's, after the checks that the program makes. Throws Error,
  // whose message names settings as the program's options, and what `work` throws.
  void perform(const std::function<void()>& work);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace accrue::app
