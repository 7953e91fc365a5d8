#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, k] = 1 where k = index[n], else 0. index is i32 [N], y [N, classes] of a floating dtype. Not
// differentiable. An index outside [0, classes) gives a row of zeros.
// Throws Error unless index is i32 [N] and classes >= 1.
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype);

}  // namespace accrue
