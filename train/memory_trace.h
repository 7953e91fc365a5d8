#pragma once

#include <string>

#include "core/timeline.h"

namespace accrue {

// A recording of the device's memory until the end of the first windows, as a file of Chrome's
// trace events (docs/memory.md has the format).
class MemoryTrace {
 public:
  // Starts to record. `about` is a JSON object with what is known of the run. Throws Error if the
  // file cannot be written to.
  MemoryTrace(std::string file, int64_t windows, Device device, std::string about = "{}");
  // Ends the recording and writes the file; `more` is added to what is known. Throws Error.
  void write(const std::string& more = "{}");

 private:
  std::string file_, about_;
  int64_t windows_;
  Timeline timeline_;
};

}  // namespace accrue
