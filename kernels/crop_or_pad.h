#pragma once

#include "core/tensor.h"

namespace accrue {

namespace detail {

// The images x [N, C, h, w] at another size [N, C, H, W], cut or padded with zeros at the bottom
// and on the right:
//   y[n, c, i, j] = x[n, c, i, j] for i < h and j < w, else 0
// Backward: dx is dy at x's size, with zeros where pixels were cut. Keeps nothing.
// Throws Error unless x has four dimensions and H and W are above 0.
Tensor crop_or_pad(const Tensor& x, int64_t H, int64_t W);

}  // namespace detail

// The part of the images x [N, C, h, w] from row `top` and column `left` on, [N, C, H, W]:
//   y[n, c, i, j] = x[n, c, top + i, left + j]
// Backward: dx is dy there and zero around it. Keeps nothing.
// Throws Error unless x has four dimensions and the part lies within it and is not empty.
Tensor crop(const Tensor& x, int64_t top, int64_t left, int64_t H, int64_t W);

}  // namespace accrue
