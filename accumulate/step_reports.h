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
  int64_t step = 0;             // optimizer steps taken so far, including this one
  int64_t micro_batches = 0;    // in this window
  int64_t samples = 0;          // in this window: N_actual
  double weight = 0;            // the sum of the micro-batches' weights: W
  double loss = 0;              // mean, weighted
  std::vector<double> terms{};  // weighted means of the terms beside the loss
  double grad_norm = 0;         // of the mean gradient, before clipping; NaN if it was never whole
  double lr = 0;
  double noise_scale = std::numeric_limits<double>::quiet_NaN();  // in the unit of the weights
  double loss_scale = 1;  // that multiplied this window's loss
  bool overflow = false;  // the gradient of the window, or of a dropped micro-batch, was not finite
  int64_t dropped_samples = 0;
  bool skipped = false;    // the loss or gradient was not finite, or W is 0: nothing was changed
  bool no_weight = false;  // no sample counted: W is 0
};

namespace detail {

// The host's plan for a step that it enqueues, if `taken` steps come before it.
StepPlan plan_of(const WindowOptions& options, const Schedule& schedule, int64_t taken);

// The outcomes of steps. They arrive from the device some time after the steps were enqueued.
class StepReports {
 public:
  // The accumulator checks the outcomes; it must outlive the reports.
  StepReports(const Accumulator& accumulator, Device device);

  // Records that a step of this window has been enqueued, with the learning rate that the host
  // expects.
  void push(const WindowCounts& window, double lr, const View& state);
  // Waits for the oldest outcome if the host is max_windows_in_flight ahead.
  void make_room();
  // The reports that have arrived since the last call, oldest first; with Wait::yes, all reports.
  enum class Wait { no, yes };
  std::vector<StepReport> take(Wait wait);
  // The report of the step enqueued last; take() returns the earlier ones.
  StepReport take_last();

  // The number of steps whose outcomes have not arrived.
  size_t in_flight() const { return in_flight_.size(); }
  // The number of optimizer steps, counting only outcomes that have arrived.
  int64_t& taken() { return taken_; }
  int64_t taken() const { return taken_; }

 private:
  void take_oldest();

  const Accumulator& accumulator_;
  const bool is_meta_;
  Readback outcomes_;
  std::deque<StepReport> in_flight_;  // with the fields that the host knows
  std::vector<StepReport> arrived_;
  int64_t taken_ = 0;
};

}  // namespace detail

}  // namespace accrue
