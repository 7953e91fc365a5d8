#pragma once

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// The number of partial sums that a gradient's sum of squares is divided into. It is fixed, so that
// the result does not depend on the number of threads, and large enough to give every thread work,
// on the CPU and on CUDA.
inline constexpr int64_t norm_partials = 1024;

// partials[j] = (sum of squares of the elements of g in part j) + beta * partials[j], partials f64
// [norm_partials], g [P] of any floating dtype. Their sum is the squared norm; it is finite if and
// only if every element of g is (float32: its squares do not overflow in double). One read of g: 4
// P bytes.
void squared_norm(GradTarget partials, View g);

}  // namespace accrue
