#pragma once

#include "core/tensor.h"

namespace accrue {

namespace detail {

// y[n, c, h, w] = x[n, c, floor(h * H0 / H), floor(w * W0 / W)], x [N, C, H0, W0], y [N, C, H, W]:
// resizes images from any size to any other. The quotients are exact; some libraries round a scale
// first.
// Backward: dx[n, c, p, q] = sum of dy[n, c, h, w] over the pixels (h, w) that read (p, q); 0 where
// none does. Keeps nothing. Throws Error unless x has four dimensions and at least one pixel, and
// H, W >= 1.
Tensor resize_nearest(const Tensor& x, int64_t H, int64_t W);

}  // namespace detail

// resize_nearest to [N, C, H * factor, W * factor] of x [N, C, H, W].
// Throws Error unless x has four dimensions and at least one pixel, and factor >= 1.
Tensor upsample_nearest(const Tensor& x, int64_t factor);

}  // namespace accrue
