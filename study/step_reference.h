#pragma once

#include "kernels/step/optimizer_step.h"
#include "study/arrays.h"

namespace accrue::study {

// The scalars of the rungs that step.
inline constexpr double lr = 1e-3, steps_taken = 10, loss_scale = 1024;
inline constexpr AdamScalars adam_scalars{0.9, 0.999, 1e-8, 0, WeightDecay::decoupled};
inline constexpr SgdScalars sgd_scalars{0.9, 0, Momentum::heavy_ball};

// A window's state after decide_step(): this lr and grad_scale, not skipped.
Tensor make_state(double grad_scale, Device device);
// The progress that adam_begin() computes from such a state, so that this is step steps_taken.
Tensor make_progress(const Tensor& state);

// The largest error of w, m and v after a step of Adam with grad_scale * g, from the initial
// values, in units of what rounding can explain.
double adam_error(const Arrays& arrays, double grad_scale);
// Of w and of m, the momentum, after a step of SGD.
double sgd_error(const Arrays& arrays);

}  // namespace accrue::study
