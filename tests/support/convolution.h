#pragma once

#include "core/inside.h"
#include "kernels/detail/per_axis.h"
#include "tests/support/op_table.h"

// Convolutions by their definition, for references.
namespace accrue::test {

// Calls body(pixel, tap, cell) for every product of a convolution of x by w: image pixel
// (n, c, ih, iw), tap (o, c, i, j), grid cell (n, o, h, w) of `grid`, by their offsets. With groups
// the pixel's channel is one of o's group, whose c-th w has a tap for.
template <class Body>
void for_each_product(const Shape& image, const Shape& w, const Shape& grid, PerAxis stride,
                      PerAxis padding, PerAxis dilation, Body body, int64_t groups = 1) {
  // Once: a call for each size of each product would be nearly all of what the tests of ops cost.
  const int64_t N = grid[0], O = w[0], GH = grid[2], GW = grid[3];
  const int64_t C = w[1], I = w[2], J = w[3], image_C = image[1], H = image[2], W = image[3];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t gh = 0; gh < GH; ++gh)
        for (int64_t gw = 0; gw < GW; ++gw)
          for (int64_t c = 0; c < C; ++c)
            for (int64_t i = 0; i < I; ++i)
              for (int64_t j = 0; j < J; ++j) {
                const int64_t h = gh * stride.h - padding.h + i * dilation.h;
                const int64_t v = gw * stride.w - padding.w + j * dilation.w;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                const int64_t of_image = o / (O / groups) * C + c;
                body(static_cast<size_t>(((n * image_C + of_image) * H + h) * W + v),
                     static_cast<size_t>(((o * C + c) * I + i) * J + j),
                     static_cast<size_t>(((n * O + o) * GH + gh) * GW + gw));
              }
}

// Adds b[c] to every plane c of y [N, C, ...].
inline void add_bias(Values& y, const Values& b, const Shape& shape) {
  const auto plane = static_cast<size_t>(shape.numel(2, 4));
  for (size_t i = 0; i < y.size(); ++i) y[i] += b[i / plane % b.size()];
}

}  // namespace accrue::test
