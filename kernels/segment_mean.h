#pragma once

#include "core/tensor.h"

namespace accrue {

// The mean of each segment of a row, such as the tokens of a text:
//   y[n, p, e] = 1 / L[n, p] sum_t x[n, t, e],   b <= t < b + L[n, p],   b = sum_{q < p} L[n, q].
// x is [N, T, E]. The lengths L [N, P] i32 are of segments that stand side by side from the
// beginning of a row; the elements behind them do not count. y [N, P, E] is in wide() of x's type,
// summed in float64.
// Backward: dx[n, t, e] = dy[n, p, e] / L[n, p] for t in segment p, and 0 behind the last segment.
// Keeps the lengths.
// Throws Error unless the shapes agree and the segments are not empty and fit their row. On cuda,
// where a kernel cannot throw, a length below 1 gives NaN, and places beyond the row are left out.
Tensor segment_mean(const Tensor& x, const Tensor& lengths);

}  // namespace accrue
