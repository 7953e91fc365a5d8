#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/view.h"

namespace accrue::detail {

// The number of terms beside a loss that a report can have (accumulate/window.h, Loss).
inline constexpr size_t max_loss_terms = 8;

// Whether a step changes anything, and if not, why: the loss or what it would step by is not
// finite, or there is nothing to learn from, because the window's losses have no weight.
enum class Skipped : int64_t { no, not_finite, no_weight };

// The outcome of a step.
struct StepOutcome {
  double weight;     // W: of the window's losses that were not dropped; before the step, so far
  int64_t steps;     // optimizer steps taken, this one included unless it is skipped
  double loss;       // mean by weight
  double grad_norm;  // of the mean gradient, before clipping
  double lr;
  double grad_scale;  // N / W / loss_scale * clip: what turns the sum into the gradient
  Skipped skipped;
  double noise_scale;  // B_simple in the unit of W, see decide_step(); NaN while unknown
  double loss_scale;   // that the window was computed with
  int64_t overflow;    // 1: the gradient was not finite, of the window or of one it dropped
  int64_t dropped_samples;
  std::array<double, max_loss_terms> terms;  // means, as the loss
};

// The only element of `outcome`, a tensor u8 [sizeof(StepOutcome)].
inline const StepOutcome* step_outcome(const View& outcome) {
  return reinterpret_cast<const StepOutcome*>(outcome.as<const uint8_t>());
}

}  // namespace accrue::detail
