#pragma once

#include <filesystem>

#include "data/safetensors.h"
#include "job/request.h"
#include "report/memory_comparison.h"

namespace accrue::app {

// The processes of `bench memory`: one per measurement, so that each peak belongs to one training.
class MemoryRuns {
 public:
  // `options` holds the settings that all runs share; each run takes `steps` optimizer steps.
  // Throws Error if no folder for the runs' files can be made.
  MemoryRuns(const Request& options, int64_t steps, std::string python);
  ~MemoryRuns();
  MemoryRuns(const MemoryRuns&) = delete;
  MemoryRuns& operator=(const MemoryRuns&) = delete;

  // True if the interpreter has PyTorch.
  bool pytorch_is_installed() const;
  // Runs one more process and adds its measurements to the row: the highest peaks, and the time of
  // every window except the first, which pays for work that later windows reuse. Throws Error with
  // the process's output if it fails.
  void measure(MemoryRow& row) const;
  // The final weights of the last run measured (not PyTorch's).
  NamedTensors weights() const;
  // The memory timeline of the row's second window, for the report (report/window_timeline.h).
  nlohmann::json timeline(const MemoryRow& row) const;

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  // The settings of the row's training.
  Request options_of(const MemoryRow& row) const;
  void measure_accrue(MemoryRow& row) const;
  void measure_pytorch(MemoryRow& row) const;

  Request options_;
  int64_t steps_;
  std::string python_;
  std::filesystem::path folder_;
};

}  // namespace accrue::app
