#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/channels.h"
#include "kernels/detail/per_axis.h"

namespace accrue {

// How a pool walks over an image, by rows and by columns, and where the image's channels lie.
struct Pool2dShape {
  detail::PerAxis kernel;
  detail::PerAxis stride = kernel;
  detail::PerAxis padding = 0;
  bool ceil_mode = false;               // also windows that reach beyond the padding
  bool count_include_pad = true;        // as zeros of a mean
  detail::PerAxis dilation = 1;         // from a place of a window to the next, of a maximum
  Channels channels = Channels::first;  // of x and y
};

// y[n, c, h, w] = max (or mean) over 0 <= i < kernel.h, 0 <= j < kernel.w of
//   x[n, c, h * stride.h + i * dilation.h - padding.h, w * stride.w + j * dilation.w - padding.w],
// where that is a pixel of x [N, C, H, W]. Places beyond the image take no part.
// With Channels::last the same, but x is [N, H, W, C] and y [N, GH, GW, C]. Only the maximum on
// cuda has kernels for that; otherwise x and y are permuted.
// y [N, C, GH, GW] with GH = (H + 2 padding.h - EH) / stride.h + 1 rounded down, where a window
// reaches over EH = (kernel.h - 1) * dilation.h + 1 rows, GW likewise.
// With ceil_mode that is rounded up, but a window that begins behind the last pixel is left out.
// A mean divides by the number of the window's pixels, with count_include_pad also of places in the
// padding. Places beyond the padding never count.
// With Activation::relu, y = max(that, 0), a NaN stays one, and where y is 0 no gradient goes back.
// Since both are monotone, y is also the maximum of relu(x), for one relu instead of one for each
// pixel. Backward, max: dy goes to the window's winner, the first of equal ones in row order; a NaN
// wins. Keeps one byte per output, the winner's position i * kernel.w + j, and neither x nor y.
// Backward, mean: dx[n, c, h, w] = the sum over the windows that hold it of dy / their divisor.
// Keeps nothing.
// Throws Error unless x has four dimensions, kernel.h >= 1, EH <= H + 2 padding.h, kernel.w
// likewise, stride >= 1, dilation >= 1 and for mean 1, 0 <= 2 padding <= kernel, and for max
// 2 padding < kernel and kernel.h * kernel.w <= 256, with relu 255. Without ceil_mode, the place
// i = padding.h, j = padding.w of every window of a max is then a pixel of x.
Tensor max_pool2d(const Tensor& x, Pool2dShape shape, Activation activation = Activation::none);
Tensor avg_pool2d(const Tensor& x, Pool2dShape shape);

// y[n, c, 0, 0] = mean over h, w of x[n, c, h, w], x [N, C, H, W], y [N, C, 1, 1].
// With Channels::last the same, but x is [N, H, W, C] and y [N, 1, 1, C]; permuted on the cpu.
// Backward: dx[n, c, h, w] = dy[n, c, 0, 0] / (H W). Keeps nothing.
// Throws Error unless x has four dimensions and H and W are above 0.
Tensor global_avg_pool2d(const Tensor& x, Channels channels = Channels::first);

}  // namespace accrue
