#pragma once

#include <accrue/core/tensor.h>

namespace custom {

// y[n, i] = a[i] * x[n, i], x [N, I], a [I].
// Backward: da[i] = sum_n dy[n, i] * x[n, i]      dx[n, i] = dy[n, i] * a[i]
// Accumulation over micro-batches continues the sum over n. Keeps x and a; dx overwrites dy where
// it can. Throws accrue::Error unless the shapes agree.
accrue::Tensor scale_features(const accrue::Tensor& x, const accrue::Tensor& a);

}  // namespace custom
