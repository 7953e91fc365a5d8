#pragma once

#include <compare>
#include <cstdint>

#include "kernels/channels.h"
#include "kernels/detail/per_axis.h"

namespace accrue::detail {

// Zeros around an image, before its first row and column and after its last. Two numbers are the
// same for rows and columns: TensorFlow's SAME with a 5x5 kernel and stride 2 is {1, 2}. PyTorch's
// padding (1, 2) of rows and columns is PerAxis(1, 2) on both sides.
struct Padding {
  PerAxis before, after;
  constexpr Padding(int64_t both = 0) : Padding(PerAxis(both)) {}
  constexpr Padding(PerAxis both) : Padding(both, both) {}
  constexpr Padding(int64_t before, int64_t after) : Padding(PerAxis(before), PerAxis(after)) {}
  constexpr Padding(PerAxis before, PerAxis after) : before(before), after(after) {}
};

// The product that goes from an image to a grid, or from a grid to an image.
enum class Direction { gather, scatter };

// The geometry of a convolution ties an image [C, H, W] to a grid [O, GH, GW]: grid cell (gh, gw)
// sees the pixels
//   (gh * stride.h - padding.h + kh * dilation.h, gw * stride.w - padding.w + kw * dilation.w),
// and zeros where these lie outside. A convolution's x is the image and its y the grid; a
// transposed convolution's x is the grid and its y the image. Weights are w [O, C, KH, KW] in both.
// col[k, n, p] is the pixel that cell p of image n sees through tap k = (c, kh, kw). These are
// im2col's columns, which are never written out (kernels/detail/conv_products.h).
//
// The image may be some of the channels that w has filters for: then w [O, C, KH, KW] is these
// channels' part of it, and its filters lie apart.
//
// With groups, channels of the image and of the grid come in so many groups of C / groups and
// O / groups neighbours. Each group is a convolution of its own, by its filters of
// w [O, C / groups, KH, KW].
struct ConvGeometry {
  int64_t C, H, W, O, GH, GW, KH, KW;
  PerAxis stride, padding, dilation;
  int64_t groups = 1;
  int64_t filter_channels = C / groups;  // of w as a whole
  Channels channels = Channels::first;   // of image and grid: last are [H, W, C] and [GH, GW, O]

  int64_t area() const { return KH * KW; }
  // The channels of the image that one filter sees.
  int64_t group_channels() const { return C / groups; }
  int64_t taps() const { return group_channels() * area(); }
  // Elements from one filter of w to the next.
  int64_t filter_step() const { return filter_channels * area(); }
  bool has_channels_last() const { return channels == Channels::last; }
  bool has_part_of_w() const { return filter_channels != group_channels(); }
  // True if each channel of the image is a group: a filter sees one channel.
  bool is_depthwise() const { return groups > 1 && groups == C; }
  // One group's convolution.
  ConvGeometry of_group() const {
    ConvGeometry one = *this;
    one.C /= groups, one.O /= groups, one.groups = 1;
    return one;
  }
  // Elements from the first of w to the last.
  int64_t w_extent() const { return (O - 1) * filter_step() + taps(); }
  auto operator<=>(const ConvGeometry&) const = default;
};

}  // namespace accrue::detail
