#pragma once

#include "core/tensor.h"

namespace accrue {

// The mean of each segment of a row, such as that of the tokens of a text:
//   y[n, p, e] = 1 / L[n, p] sum_t x[n, t, e],   b <= t < b + L[n, p],   b = sum_{q < p} L[n, q]
// x [N, T, E], lengths L [N, P] i32 of segments that stand side by side from the beginning of a
// row; what is behind them counts nowhere. y [N, P, E] is in wide() of x's type, added up in
// float64.
// Backward: dx[n, t, e] = dy[n, p, e] / L[n, p] for t in segment p, and 0 behind the last.
// Keeps the lengths.
// Throws Error unless the shapes agree and the segments have elements and fit their row; on cuda,
// where a kernel cannot throw, a length below 1 gives NaN, and what does not fit is left out.
Tensor segment_mean(const Tensor& x, const Tensor& lengths);

}  // namespace accrue
