#pragma once

#include "core/tensor.h"

namespace accrue {

// y[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)), for gate and up of one shape (Shazeer
// 2020).
// Backward: dgate[i] = dy[i] * up[i] * silu'(gate[i]),   dup[i] = dy[i] * silu(gate[i]),
// in one pass, each over the value of its own input where that is owned by nobody else.
// Keeps gate and up. Throws Error unless shapes and dtypes agree.
Tensor swiglu(const Tensor& gate, const Tensor& up);

}  // namespace accrue
