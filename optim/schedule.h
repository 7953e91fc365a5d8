#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace accrue {

// The learning rate as a function of the optimizer step t = 0, 1, ... (never of the micro-step):
//   constant  base
//   step      base * gamma^floor(t / every)
//   cosine    floor + (base - floor) * (1 + cos(pi * min(t, total) / total)) / 2
//   plateau   base * gamma^(times the metric did not improve for `patience` observations), at
//             least floor
// and during the first warmup_steps all of them are multiplied by (t + 1) / warmup_steps; cosine
// counts t and total from the end of the warm-up.
struct ScheduleOptions {
  enum class Kind { constant, step, cosine, plateau } kind = Kind::constant;
  double base = 1e-3;
  double floor = 0;
  double gamma = 0.1;
  int64_t warmup_steps = 0;
  int64_t every = 1000;  // step
  int64_t total = 0;     // cosine: length of the run in optimizer steps
  int64_t patience = 2;  // plateau
};

class Schedule {
 public:
  // Throws Error for values out of range.
  Schedule(ScheduleOptions options);

  double lr(int64_t step) const;
  // Plateau: one observation of a metric that should fall (the epoch's mean loss).
  void observe(double metric);
  // "cosine from 0.001 to 0 over 2814 steps, warm-up 100"
  std::string describe() const;

 private:
  ScheduleOptions options_;
  double factor_ = 1, best_ = std::numeric_limits<double>::infinity();
  int64_t without_improvement_ = 0;
};

}  // namespace accrue
