#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, c, i, j] = mean of x[n, c, h, w] over begin(i, H) <= h < end(i, H) and w likewise, where
//   begin(i, H) = i * H / GH rounded down, end(i, H) = (i + 1) * H / GH rounded up.
// x [N, C, H, W], y [N, C, GH, GW], which may be larger: windows have 1 pixel at least, and overlap
// where GH does not divide H. With GH = GW = 1 it is global_avg_pool2d.
// Backward: dx[n, c, h, w] = the sum over the windows that hold it of dy / their number of pixels.
// Keeps nothing.
// Throws Error unless x has four dimensions and H, W, GH and GW are above 0.
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t GH, int64_t GW);

}  // namespace accrue
