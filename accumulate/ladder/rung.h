#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/inside.h"

namespace accrue::ladder {

// One implementation of a task, measured beside the others.
struct Rung {
  std::string ladder, name;
  int64_t launches;
  int64_t bytes;              // that it must read and write, by its formula
  std::function<void()> run;  // enqueues the work
  // After run() from the initial values: the largest error, in units of the rounding bound.
  std::function<double()> error;
  // The rung whose time is subtracted from this one's; launches and bytes are the difference.
  std::string beyond;
};

struct Result {
  Rung rung;
  double error;
  double seconds = 0;  // of one run, the median
  bool ok() const { return error <= 1; }
  double bytes_per_s() const { return static_cast<double>(rung.bytes) / seconds; }
};

// Runs each rung once from the values that reset() restores, and checks the results.
std::vector<Result> check_rungs(const std::vector<Rung>& rungs, const std::function<void()>& reset);

// Times the rungs in turn for `seconds` seconds, at least three rounds. In each turn a rung repeats
// until it takes long enough for the clock. On cuda the clock is the device's. Returns the number
// of rounds.
int64_t measure(std::vector<Result>& results, Device device, double seconds);

// Throws Error that names the rungs with wrong results.
void require_ok(const std::vector<Result>& results);

}  // namespace accrue::ladder
