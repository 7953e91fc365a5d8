#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, c, h, w] = x[n, c, h / factor, w / factor] rounded down, x [N, C, H, W],
// y [N, C, H * factor, W * factor].
// Backward: dx[n, c, h, w] = sum over 0 <= i, j < factor of dy[n, c, h * factor + i, w * factor +
// j]. Keeps nothing. Throws Error unless x has four dimensions and factor >= 1.
Tensor upsample_nearest(const Tensor& x, int64_t factor);

}  // namespace accrue
