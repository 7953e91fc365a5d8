#pragma once

#include <compare>
#include <cstdint>

namespace accrue::detail {

// Zeros around an image, the same for rows and columns. TensorFlow's SAME with a 5x5 kernel and
// stride 2 is {1, 2}.
struct Padding {
  int64_t before, after;
  constexpr Padding(int64_t both = 0) : Padding(both, both) {}
  constexpr Padding(int64_t before, int64_t after) : before(before), after(after) {}
};

// The product that goes from an image to a grid, or from a grid to an image.
enum class Direction { gather, scatter };

// The geometry of a convolution ties an image [C, H, W] to a grid [O, GH, GW]: grid cell (gh, gw)
// sees the pixels
//   (gh * stride - padding + kh * dilation, gw * stride - padding + kw * dilation),
// and zeros where these lie outside. A convolution's x is the image and its y the grid; a
// transposed convolution's x is the grid and its y the image. Weights are w [O, C, KH, KW] in both.
// col[k, n, p] is the pixel that cell p of image n sees through tap k = (c, kh, kw). These are
// im2col's columns, which are never written out (kernels/detail/conv_products.h).
//
// The image may have only some of the channels that w has filters for. Then w [O, C, KH, KW] is the
// part of w for these channels, and its filters do not lie side by side.
struct ConvGeometry {
  int64_t C, H, W, O, GH, GW, KH, KW, stride, padding, dilation;
  int64_t filter_channels = C;  // of w as a whole

  int64_t area() const { return KH * KW; }
  int64_t taps() const { return C * area(); }
  // Elements from one filter of w to the next.
  int64_t filter_step() const { return filter_channels * area(); }
  bool has_part_of_w() const { return filter_channels != C; }
  // Elements from the first of w to the last.
  int64_t w_extent() const { return (O - 1) * filter_step() + taps(); }
  auto operator<=>(const ConvGeometry&) const = default;
};

}  // namespace accrue::detail
