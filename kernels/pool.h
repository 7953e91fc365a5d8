#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"

namespace accrue {

// The windows of a pool.
struct Pool2dShape {
  int64_t kernel;
  int64_t stride = kernel;
  int64_t padding = 0;  // only for max_pool2d
};

// y[n, c, h, w] = max (or mean) over 0 <= i, j < kernel of
//   x[n, c, h * stride + i - padding, w * stride + j - padding].
// Only places that are pixels of x [N, C, H, W] take part. y is [N, C, GH, GW] with
// GH = (H + 2 padding - kernel) / stride + 1 rounded down, and GW likewise.
// With Activation::relu, y = max(that, 0), where a NaN stays a NaN, and no gradient flows where y
// is 0. Since both functions are monotone, y is also the maximum of relu(x), but costs only
// 1/kernel^2 of relu's work.
// Backward, max: dy goes to the window's largest pixel, the first of equal ones in row order. A NaN
// counts as the largest. Keeps one byte per output, the pixel's position i * kernel + j, and
// neither x nor y.
// Backward, mean: dx[n, c, h, w] = 1 / kernel^2 * the sum of dy over the windows that contain the
// pixel. Keeps nothing.
// Throws Error unless x has four dimensions, 1 <= kernel <= min(H, W) + 2 padding, and stride >= 1.
// For max, also unless kernel^2 <= 256 (255 with relu) and 0 <= 2 padding < kernel, so that the
// place (padding, padding) of every window is a pixel of x.
Tensor max_pool2d(const Tensor& x, Pool2dShape shape, Activation activation = Activation::none);
Tensor avg_pool2d(const Tensor& x, Pool2dShape shape);

// y[n, c, 0, 0] = mean over h, w of x[n, c, h, w], x [N, C, H, W], y [N, C, 1, 1].
// Backward: dx[n, c, h, w] = dy[n, c, 0, 0] / (H W). Keeps nothing.
// Throws Error unless x has four dimensions and H and W are above 0.
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace accrue
