#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/view.h"

namespace accrue::detail {

// The largest number of terms that a report can have beside its loss (accumulate/window.h, Loss).
inline constexpr size_t max_loss_terms = 8;

// Whether a step is skipped, and why: the loss or the gradient of the step is not finite, or the
// window's losses have no weight, so there is nothing to learn from.
enum class Skipped : int64_t { no, not_finite, no_weight };

// The outcome of a step.
struct StepOutcome {
  double weight;     // W: total of the losses that were not dropped; before the step, so far
  int64_t steps;     // optimizer steps taken, including this one unless it is skipped
  double loss;       // weighted mean
  double grad_norm;  // of the mean gradient, before clipping
  double lr;
  double grad_scale;  // N / W / loss_scale * clip, which turns the sum into the gradient
  Skipped skipped;
  double noise_scale;  // B_simple in the unit of W, see decide_step(); NaN while unknown
  double loss_scale;   // with which the window was computed
  int64_t overflow;    // 1: the window dropped samples, or its gradient was not finite
  int64_t dropped_samples;
  std::array<double, max_loss_terms> terms;  // weighted means, like the loss
};

// Returns the only element of `outcome`, a tensor u8 [sizeof(StepOutcome)].
inline const StepOutcome* step_outcome(const View& outcome) {
  return reinterpret_cast<const StepOutcome*>(outcome.as<const uint8_t>());
}

}  // namespace accrue::detail
