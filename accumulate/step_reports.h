#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "accumulate/accumulator.h"
#include "core/readback.h"
#include "optim/schedule.h"

namespace accrue {

// The result of one optimizer step.
struct StepReport {
  int64_t step = 0;             // optimizer steps taken so far, this one included
  int64_t micro_batches = 0;    // in this window
  int64_t samples = 0;          // in this window: N_actual
  double weight = 0;            // of their losses together: W
  double loss = 0;              // mean by weight
  std::vector<double> terms{};  // likewise, of the terms beside it
  double grad_norm = 0;         // of the mean gradient, before clipping; NaN if never whole
  double lr = 0;
  double noise_scale = std::numeric_limits<double>::quiet_NaN();  // in the unit of the weights
  double loss_scale = 1;  // that the window was computed with
  bool overflow = false;  // the gradient was not finite, in the window or in what it dropped
  int64_t dropped_samples = 0;
  bool skipped = false;    // a non-finite gradient or loss, or no weight: nothing was changed
  bool no_weight = false;  // there was nothing to learn from: W is 0
};

namespace detail {

// What the host knows of a step when it enqueues it, `taken` steps after the first.
StepPlan plan_of(const WindowOptions& options, const Schedule& schedule, int64_t taken);

// The outcomes of steps, which arrive from the device later than they are enqueued.
class StepReports {
 public:
  // The accumulator checks the outcomes; it must outlive the reports.
  StepReports(const Accumulator& accumulator, Device device);

  // A step of this window has been enqueued, at this learning rate as far as the host knows.
  void push(const WindowCounts& window, double lr, const View& state);
  // Waits for the oldest if the host is max_windows_in_flight ahead.
  void make_room();
  // The reports that have arrived since, oldest first; with Wait::yes all of them.
  enum class Wait { no, yes };
  std::vector<StepReport> take(Wait wait);
  // The report of the step enqueued last; take() has those before it.
  StepReport take_last();

  // Steps whose outcomes have not arrived.
  size_t in_flight() const { return in_flight_.size(); }
  // Optimizer steps taken, by the outcomes that have arrived.
  int64_t& taken() { return taken_; }
  int64_t taken() const { return taken_; }

 private:
  void take_oldest();

  const Accumulator& accumulator_;
  const bool is_meta_;
  Readback outcomes_;
  std::deque<StepReport> in_flight_;  // what the host knows of them
  std::vector<StepReport> arrived_;
  int64_t taken_ = 0;
};

}  // namespace detail

}  // namespace accrue
