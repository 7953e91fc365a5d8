#pragma once

#include <optional>

#include "core/tensor.h"

namespace accrue {

// y[n, d] = w[index[n], d], with w [V, D] and index [N] i32 in [0, V).
// Backward: dw[v, d] = sum_{n: index[n] = v} dy[n, d], in the order of n. Rows without an index get
// 0 when dw is written, and stay as they are when dw accumulates. Keeps the index.
// With `padding`, dw[padding] gets nothing from dy, as PyTorch's padding_idx says.
// y has `dtype`, by default the dtype of w or of its 16-bit copy. A w that wants no gradient may
// have any stored type (core/dtype.h, is_stored_type()).
// Throws Error unless the shapes fit, and every index and the padding are in range. On CUDA, where
// a kernel cannot throw, an index out of range gives a row of NaN, and backward ignores its dy.
Tensor embedding(const Tensor& w, const Tensor& index, std::optional<DType> dtype = {},
                 std::optional<int64_t> padding = {});

}  // namespace accrue
