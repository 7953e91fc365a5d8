#pragma once

#include "tests/support/op_table.h"

// Convolutions as their definition says, for references.
namespace accrue::test {

// Calls body(n, c, h, w, o, i, j, ih, iw) for every product of a convolution of x by w: image pixel
// (n, c, ih, iw), tap (o, c, i, j), grid cell (n, o, h, w) of `grid`.
template <class Body>
void for_each_product(const Shape& image, const Shape& w, const Shape& grid, int64_t stride,
                      int64_t padding, int64_t dilation, Body body) {
  for (int64_t n = 0; n < grid[0]; ++n)
    for (int64_t o = 0; o < w[0]; ++o)
      for (int64_t gh = 0; gh < grid[2]; ++gh)
        for (int64_t gw = 0; gw < grid[3]; ++gw)
          for (int64_t c = 0; c < w[1]; ++c)
            for (int64_t i = 0; i < w[2]; ++i)
              for (int64_t j = 0; j < w[3]; ++j) {
                const int64_t h = gh * stride - padding + i * dilation;
                const int64_t v = gw * stride - padding + j * dilation;
                if (h < 0 || h >= image[2] || v < 0 || v >= image[3]) continue;
                body(static_cast<size_t>(((n * image[1] + c) * image[2] + h) * image[3] + v),
                     static_cast<size_t>(((o * w[1] + c) * w[2] + i) * w[3] + j),
                     static_cast<size_t>(((n * w[0] + o) * grid[2] + gh) * grid[3] + gw));
              }
}

// Adds b[c] to every plane c of y [N, C, ...].
inline void add_bias(Values& y, const Values& b, const Shape& shape) {
  const auto plane = static_cast<size_t>(shape.numel(2, 4));
  for (size_t i = 0; i < y.size(); ++i) y[i] += b[i / plane % b.size()];
}

}  // namespace accrue::test
