#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "optim/state_dict.h"

namespace accrue {

// The learning rate as a function of the optimizer step t = 0, 1, ... (never of the micro-step):
//   constant  base
//   step      base * gamma^floor(t / every)
//   cosine    floor + (base - floor) * (1 + cos(pi * min(t, total) / total)) / 2
//   plateau   base * gamma^(times the metric did not improve for `patience` observations), at
//             least floor
//   one-cycle from base / div_factor up to base at t = pct_start * total - 1, then down to
//             base / div_factor / final_div_factor at t = total - 1, both along half a cosine
//             (Smith & Topin, arXiv 1708.07120; PyTorch's OneCycleLR).
// During the first warmup_steps, every kind gives base * (t + 1) / warmup_steps, except one-cycle,
// which has its own warm-up. cosine counts t and total from the end of the warm-up. The factors are
// the same as in PyTorch's StepLR, CosineAnnealingLR and ReduceLROnPlateau (with threshold 0).
struct ScheduleOptions {
  enum class Kind { constant, step, cosine, plateau, one_cycle } kind = Kind::constant;
  double base = 1e-3;
  double floor = 0;
  double gamma = 0.1;
  int64_t warmup_steps = 0;
  int64_t every = 1000;  // step
  int64_t total = 0;     // cosine, one-cycle: length of the run in optimizer steps
  int64_t patience = 2;  // plateau
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;  // one-cycle
};

// Computes the learning rate from the options and the observed metrics.
class Schedule {
 public:
  // Throws Error for values out of range.
  Schedule(ScheduleOptions options);

  double lr(int64_t step) const;
  // For plateau: takes one observation of a metric that should fall, such as the epoch's mean loss.
  void observe(double metric);
  // Adds the state that observe() changes.
  void add_state(StateDict& dict);
  // "cosine from 0.001 to 0 over 2814 steps, warm-up 100"
  std::string describe() const;

 private:
  ScheduleOptions options_;
  double factor_ = 1, best_ = std::numeric_limits<double>::infinity();
  int64_t without_improvement_ = 0;
};

}  // namespace accrue
