#pragma once

#include <optional>

#include "core/tensor.h"

namespace accrue {

// y[n, d] = w[index[n], d], w [V, D], index [N] i32 in [0, V).
// Backward: dw[v, d] = sum_{n: index[n] = v} dy[n, d], in the order of n. Rows that no index names
// get 0 when written and are left alone when accumulated to. Keeps the index.
// y is of `dtype`, or as w or its 16-bit copy is. w may be stored otherwise (core/dtype.h,
// is_stored_type()) if it wants no gradient.
// Throws Error unless the shapes fit and every index is in range; on CUDA, where a kernel cannot
// throw, an index out of range gives a row of NaN and its dy goes nowhere.
Tensor embedding(const Tensor& w, const Tensor& index, std::optional<DType> dtype = {});

}  // namespace accrue
