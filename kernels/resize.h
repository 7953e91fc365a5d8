#pragma once

#include "core/tensor.h"

namespace accrue {

// A pixel of y lies at some place p of x along each dimension. These are its taps, the pixels of x
// that it is made of.
//   nearest        floor(p), for p = h * in / out.
//   nearest_exact  floor(p), for p = (h + 1/2) * in / out.
//   bilinear       floor(p) and the next, 1 - t and t for t = p - floor(p), with p at least 0.
//   bicubic        Four from floor(p) - 1 on: cubic convolution with a = -3/4 (Keys 1981).
// Pixels beyond an edge are those at the edge. The first two compute p in float32, as PyTorch does,
// so that each picks the pixel that PyTorch picks; the others in float64.
enum class ResizeMode : char { nearest, nearest_exact, bilinear, bicubic };

// Where pixel h lies in x, for bilinear and bicubic:
//   half_pixel     (h + 1/2) * in / out - 1/2      the corners of both images agree
//   align_corners  h * (in - 1) / (out - 1)        the centres of their corner pixels do; 0 for one
enum class Coordinates : char { half_pixel, align_corners };

// y[n, c, h, w] = sum_{i, j} a(h, i) * b(w, j) * x[n, c, i, j], x [N, C, H0, W0], y [N, C, H, W].
// Row h has taps i that count a(h, i), and column w has taps j that count b(w, j). This is
// torch.nn.functional.interpolate with a size, without antialias. Sizes that are x's give x itself.
// Backward: dx[n, c, i, j] = sum_{h, w} a(h, i) * b(w, j) * dy[n, c, h, w], in their order; 0 where
// no pixel reads (i, j). Keeps nothing. The taps of each axis are a table, which the device makes,
// and the backward gathers by the transposed one.
// Throws Error unless x has four dimensions and at least one pixel, H, W >= 1, and the coordinates
// are half_pixel for the nearest ones.
Tensor resize(const Tensor& x, int64_t H, int64_t W, ResizeMode mode,
              Coordinates coordinates = Coordinates::half_pixel);

// resize to [N, C, floor(H0 * rows), floor(W0 * columns)] where in / out above is 1 / rows and
// 1 / columns: interpolate with a scale_factor. That differs from resize() where these products are
// no integers. For bilinear, equal sizes make the factor 1. (PyTorch's CPU does so for nearest,
// too, and takes 2 where a size is doubled, but in small images alone.) Throws Error as resize()
// does, and unless both factors are above 0 and finite.
Tensor resize_by(const Tensor& x, double rows, double columns, ResizeMode mode,
                 Coordinates coordinates = Coordinates::half_pixel);

namespace detail {

// "bilinear", as PyTorch calls it.
std::string_view name(ResizeMode mode);

}  // namespace detail

}  // namespace accrue
