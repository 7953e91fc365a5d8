#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, c, h * factor + i, w * factor + j] = x[n, (c * factor + i) * factor + j, h, w] for
// 0 <= i, j < factor (Shi et al. 2016): x [N, C * factor^2, H, W], y [N, C, H * factor, W *
// factor]. Backward: dx[n, (c * factor + i) * factor + j, h, w] = dy[n, c, h * factor + i, w *
// factor + j]. Keeps nothing. dx never goes over dy, because its pixels are in other places. Throws
// Error unless x has four dimensions, factor >= 1 and factor^2 divides the channels.
Tensor pixel_shuffle(const Tensor& x, int64_t factor);

}  // namespace accrue
