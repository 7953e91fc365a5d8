#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"

namespace accrue {

// How a pool walks over an image.
struct Pool2dShape {
  int64_t kernel;
  int64_t stride = kernel;
  int64_t padding = 0;  // of max_pool2d alone
};

// y[n, c, h, w] = max (or mean) over 0 <= i, j < kernel of
//   x[n, c, h * stride + i - padding, w * stride + j - padding],
// where that is a pixel of x [N, C, H, W]: places beyond the image take no part.
// y [N, C, GH, GW] with GH = (H + 2 padding - kernel) / stride + 1 rounded down, GW likewise.
// With Activation::relu, y = max(that, 0), a NaN stays one, and where y is 0 no gradient goes back.
// Since both are monotone, y is also the maximum of relu(x), for a kernel^2-th of relu's work.
// Backward, max: dy goes to the window's winner, the first of equal ones in row order; a NaN wins.
// Keeps one byte per output, the winner's position i * kernel + j, and neither x nor y.
// Backward, mean: dx[n, c, h, w] = 1 / kernel^2 * the sum of dy over the windows that hold it.
// Keeps nothing.
// Throws Error unless x has four dimensions, 1 <= kernel <= H + 2 padding and W + 2 padding,
// stride >= 1, and for max kernel^2 <= 256, with relu 255, and 0 <= 2 padding < kernel: the pixel
// (padding, padding) of every window is then one of x.
Tensor max_pool2d(const Tensor& x, Pool2dShape shape, Activation activation = Activation::none);
Tensor avg_pool2d(const Tensor& x, Pool2dShape shape);

// y[n, c, 0, 0] = mean over h, w of x[n, c, h, w], x [N, C, H, W], y [N, C, 1, 1].
// Backward: dx[n, c, h, w] = dy[n, c, 0, 0] / (H W). Keeps nothing.
// Throws Error unless x has four dimensions and H and W are above 0.
Tensor global_avg_pool2d(const Tensor& x);

}  // namespace accrue
