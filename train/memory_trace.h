#pragma once

#include <string>

#include "core/timeline.h"

namespace accrue::detail {

// A recording of the device's memory until the end of the first windows, in the format of Chrome's
// trace events (docs/memory.md describes it).
class MemoryTrace {
 public:
  // Starts recording `windows` windows, which have `steps` steps, one for each turn (train/game.h).
  // `about` is a JSON object that describes the run.
  MemoryTrace(int64_t windows, int64_t steps, Device device, std::string about = "{}");
  // Ends the recording and returns it as JSON; `more` is added to `about`.
  std::string text(const std::string& more = "{}");

 private:
  std::string about_;
  int64_t windows_;
  Timeline timeline_;
};

}  // namespace accrue::detail
