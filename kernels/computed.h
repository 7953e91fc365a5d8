#pragma once

#include "core/tensor.h"

namespace accrue::detail {

// y = p: a parameter as a value of the type that its network computes in, for ops that take values
// of one type. y is p's 16-bit copy (core/parameters.h), and p itself where there is none.
// Backward: dp[i] = dy[i], widened. Keeps nothing, and y takes no memory.
Tensor as_computed(const Tensor& parameter);

}  // namespace accrue::detail
