#pragma once

#include "core/tensor.h"

namespace accrue {

// y[i] = x[i] + gamma[0] * a[i]: adds a branch a to the tensor x that it starts from. x and a have
// one shape. gamma [1] is a learned factor, float32 beside 16 bits.
// Backward: dgamma[0] = sum_i dy[i] * a[i],   da[i] = gamma[0] * dy[i],   dx[i] = dy[i].
// Keeps a and gamma. Writes dx over dy where it can, otherwise da.
// Throws Error unless the shapes and dtypes agree.
Tensor scale_add(const Tensor& x, const Tensor& gamma, const Tensor& a);

}  // namespace accrue
