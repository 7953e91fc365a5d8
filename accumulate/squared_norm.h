#pragma once

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// The number of parts of a gradient whose sums of squares are computed separately. It is constant,
// so that the result does not depend on the number of threads, and large enough to give every
// thread work, on the CPU and on CUDA.
inline constexpr int64_t norm_partials = 1024;

// partials[j] = (sum of squares of the elements of g in part j) + beta * partials[j], partials f64
// [norm_partials], g [P] of any floating dtype. The sum of the partials is the squared norm. It is
// finite if and only if every element of g is, because squares of float32 do not overflow float64.
// Reads g once: 4 P bytes in float32.
void squared_norm(GradTarget partials, View g);

}  // namespace accrue
