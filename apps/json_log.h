#pragma once

#include <cstdint>
#include <string>

namespace accrue::app {

// Cuts the file of --json, or metrics.jsonl of --log-dir, back to the lines of a run's first
// `windows` windows, for a run that goes on from there. A last line that was cut short when the run
// ended, and scores, are left out. Returns how many windows it has lines of: fewer than asked for,
// if they are not there.
int64_t keep_json_windows(const std::string& path, int64_t windows);

}  // namespace accrue::app
