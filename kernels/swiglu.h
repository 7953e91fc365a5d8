#pragma once

#include "core/tensor.h"

namespace accrue {

// y[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)), for gate and up of one shape (Shazeer
// 2020).
// Backward: dgate[i] = dy[i] * up[i] * silu'(gate[i]),   dup[i] = dy[i] * silu(gate[i]),
// in one pass. Each gradient goes over the value of its own input if no one else holds that.
// Keeps gate and up. Throws Error unless shapes and dtypes agree.
Tensor swiglu(const Tensor& gate, const Tensor& up);

}  // namespace accrue
