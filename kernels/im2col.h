#pragma once

#include "core/autograd.h"
#include "kernels/activation.h"

namespace accrue {

// Zeros around an image, the same for rows and columns. TensorFlow's SAME with a 5x5 kernel and
// stride 2 is {1, 2}.
struct Padding {
  int64_t before, after;
  constexpr Padding(int64_t both = 0) : Padding(both, both) {}
  constexpr Padding(int64_t before, int64_t after) : before(before), after(after) {}
};

// How windows tie an image [C, H, W] to a grid [O, GH, GW]: grid cell (gh, gw) sees the pixels
//   (gh * stride - padding + kh * dilation, gw * stride - padding + kw * dilation),
// and zeros where these lie outside. A convolution's x is the image and its y the grid; a
// transposed convolution's x is the grid and its y the image. Weights are w [O, C, KH, KW] in both.
struct Windows {
  int64_t C, H, W, O, GH, GW, KH, KW, stride, padding, dilation;

  int64_t taps() const { return C * KH * KW; }
  int64_t cells() const { return GH * GW; }
};

// Scratch for one call of a kernel below on N images. The column buffer is a tile that fits the
// cache, never the columns of a whole micro-batch.
Tensor windows_workspace(const Windows& windows, int64_t N, DType dtype, Device device);

namespace cpu {

// With col[k, n, p] the pixel that cell p of image n sees through tap k = (c, kh, kw):

// grid[n, o, p] = act(sum_k w[o, k] * col[k, n, p] + b[o]) + beta * grid[n, o, p]; b may be empty.
void gather_windows(GradTarget grid, View image, View w, View b, Activation activation,
                    const Windows& windows, View workspace);
// image = b[c] + sum over all (k, p) that see the pixel of sum_o w[o, k] * grid[n, o, p]
//         + beta * image; b may be empty.
void scatter_windows(GradTarget image, View grid, View w, View b, const Windows& windows,
                     View workspace);
// w[o, k] = sum_(n, p) grid[n, o, p] * col[k, n, p] + beta * w[o, k].
void correlate_windows(GradTarget w, View grid, View image, const Windows& windows, View workspace);

// db[c] = sum_(n, p) dy[n, c, p] + beta * db[c].
void channel_sum(GradTarget db, View dy);

}  // namespace cpu
}  // namespace accrue
