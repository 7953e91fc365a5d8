#pragma once

#include <filesystem>

#include "data/safetensors.h"
#include "job/request.h"
#include "report/memory_comparison.h"

namespace accrue::app {

// The processes of `bench memory`: each measurement is a fresh one, so that its peak is its own.
class MemoryRuns {
 public:
  // `options` holds what all runs share; `steps` optimizer steps each. Throws Error if no folder
  // for their files can be made.
  MemoryRuns(const Request& options, int64_t steps, std::string python);
  ~MemoryRuns();
  MemoryRuns(const MemoryRuns&) = delete;
  MemoryRuns& operator=(const MemoryRuns&) = delete;

  // True if the interpreter has PyTorch.
  bool pytorch_is_installed() const;
  // Adds one more process's measurements to the row: the times of its windows, but for the first,
  // which pays for what later ones reuse; the highest peaks.
  // Throws Error with the process's own words if it fails.
  void measure(MemoryRow& row) const;
  // The weights at the end of the run measured last (not PyTorch's).
  NamedTensors weights() const;
  // The memory timeline of the row's second window, for the report (report/window_timeline.h).
  nlohmann::json timeline(const MemoryRow& row) const;

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  // The options of the row's training.
  Request options_of(const MemoryRow& row) const;
  void measure_accrue(MemoryRow& row) const;
  void measure_pytorch(MemoryRow& row) const;

  Request options_;
  int64_t steps_;
  std::string python_;
  std::filesystem::path folder_;
};

}  // namespace accrue::app
