#pragma once

#include "accumulate/ladder/arrays.h"
#include "kernels/step/optimizer_step.h"

namespace accrue::ladder {

// The scalars of the optimizer rungs.
inline constexpr double lr = 1e-3, steps_taken = 10, loss_scale = 1024;
inline constexpr AdamScalars adam_scalars{0.9, 0.999, 1e-8, 0, WeightDecay::decoupled};
inline constexpr SgdScalars sgd_scalars{0.9, 0, Momentum::heavy_ball};

// An outcome as decide_step() writes it, with this lr and grad_scale and not skipped, for
// step_outcome().
Tensor make_outcome(double grad_scale, Device device);
// The progress that adam_begin() computes from such an outcome, for step number steps_taken.
Tensor make_progress(const Tensor& outcome);

// The largest error of w, m and v after a step of Adam with grad_scale * g from the initial values,
// in units of the rounding bound.
double adam_error(const Arrays& arrays, double grad_scale);
// The largest error of w and of m, the momentum, after a step of SGD.
double sgd_error(const Arrays& arrays);

}  // namespace accrue::ladder
