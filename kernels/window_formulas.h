#pragma once

#include <cmath>

#include "kernels/backend.h"
#include "kernels/window_state.h"

namespace accrue::formula {

// decide_step() after the sum, for both devices.
struct Decide {
  HOST_DEVICE void operator()(WindowState& state, double sum_of_squares) const {
    const StepPlan& plan = state.plan;
    StepOutcome& out = state.outcome;
    const double unscale = plan.effective_batch_size / plan.samples / plan.loss_scale;
    out.loss = state.loss_sum / plan.samples;
    out.grad_norm = std::sqrt(sum_of_squares) * unscale;
    out.lr = plan.lr[static_cast<size_t>(out.steps - plan.first_step)];
    // Not finite: the difference with itself is NaN.
    const bool finite = out.grad_norm - out.grad_norm == 0 && out.loss - out.loss == 0;
    out.skipped = finite ? 0 : 1;
    out.grad_scale =
        out.grad_norm > plan.clip_norm ? unscale * (plan.clip_norm / out.grad_norm) : unscale;
    if (finite) ++out.steps;
  }
};

}  // namespace accrue::formula
