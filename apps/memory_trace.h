#pragma once

#include "apps/options.h"
#include "core/timeline.h"

namespace accrue::app {

// train --memory-trace: what happens to the device's memory until the end of the first
// --memory-trace-windows windows, as a file of Chrome's trace events (docs/memory.md has the
// format).
class MemoryTrace {
 public:
  // Starts to record. Throws Error if the file cannot be written to.
  MemoryTrace(const TrainOptions& options, Device device);
  // If an exception ends the recording, writes what there is: it shows what took the memory.
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;
  // Ends the recording and writes the file; no batches if they never came to be. Throws Error.
  void write(std::optional<Batches> batches);

 private:
  const TrainOptions& options_;
  Device device_;
  Timeline timeline_;
  int exceptions_before_;
  bool written_ = false;
};

}  // namespace accrue::app
