#pragma once

#include "core/tensor.h"

namespace accrue {

namespace detail {

// Brings the images x [N, C, h, w] to the size [N, C, H, W]: cuts them, or pads them with zeros, at
// the bottom and on the right.
//   y[n, c, i, j] = x[n, c, i, j] for i < h and j < w, else 0
// Backward: dx is dy at x's size, with zeros where pixels were cut. Keeps nothing.
// Throws Error unless x has four dimensions and H and W are above 0.
Tensor crop_or_pad(const Tensor& x, int64_t H, int64_t W);

}  // namespace detail

// Cuts a part [N, C, H, W] out of the images x [N, C, h, w], whose first row is `top` and whose
// first column is `left`.
//   y[n, c, i, j] = x[n, c, top + i, left + j]
// Backward: dx is dy in that part and zero around it. Keeps nothing.
// Throws Error unless x has four dimensions and the part lies within it and is not empty.
Tensor crop(const Tensor& x, int64_t top, int64_t left, int64_t H, int64_t W);

}  // namespace accrue
