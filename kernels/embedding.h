#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, d] = w[index[n], d], w [V, D], index [N] i32 in [0, V).
// Backward: dw[v, d] = sum_{n: index[n] = v} dy[n, d], in the order of n. Rows that no index names
// get 0 when written and are left alone when accumulated to. Keeps the index.
// w may be quantized (core/dtype.h): then y is of `dtype`, and w wants no gradient.
// Throws Error unless the shapes fit and every index is in range; on CUDA, where a kernel cannot
// throw, an index out of range gives a row of NaN and its dy goes nowhere.
Tensor embedding(const Tensor& w, const Tensor& index, DType dtype = DType::f32);

}  // namespace accrue
