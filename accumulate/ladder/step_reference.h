#pragma once

#include "accumulate/ladder/arrays.h"
#include "kernels/step/optimizer_step.h"

namespace accrue::ladder {

// The scalars of the rungs that step.
inline constexpr double lr = 1e-3, steps_taken = 10, loss_scale = 1024;
inline constexpr AdamScalars adam_scalars{0.9, 0.999, 1e-8, 0, WeightDecay::decoupled};
inline constexpr SgdScalars sgd_scalars{0.9, 0, Momentum::heavy_ball};

// The outcome of decide_step(), a tensor for step_outcome(): this lr and grad_scale, not skipped.
Tensor make_outcome(double grad_scale, Device device);
// The progress that adam_begin() computes from such an outcome, so that this is step steps_taken.
Tensor make_progress(const Tensor& outcome);

// The largest error of w, m and v after a step of Adam with grad_scale * g, from the initial
// values, in units of what rounding can explain.
double adam_error(const Arrays& arrays, double grad_scale);
// The errors of w and of m, the momentum, after a step of SGD.
double sgd_error(const Arrays& arrays);

}  // namespace accrue::ladder
