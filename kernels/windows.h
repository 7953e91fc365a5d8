#pragma once

#include <compare>

#include "core/autograd.h"
#include "kernels/activation.h"
#include "kernels/work.h"

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
// With col[k, n, p] the pixel that cell p of image n sees through tap k = (c, kh, kw), the three
// products below are all that either needs, forward and backward.
struct Windows {
  int64_t C, H, W, O, GH, GW, KH, KW, stride, padding, dilation;

  int64_t area() const { return KH * KW; }
  int64_t taps() const { return C * area(); }
  auto operator<=>(const Windows&) const = default;
};

// Scratch for one call on N images. On the cpu, for each thread a zero-padded band of one image or
// grid and its result; correlate_workspace has partial weight gradients besides. On cuda, what
// cuDNN may use (kernels/windows_cuda.h).
Tensor gather_workspace(const Windows& windows, int64_t N, DType dtype, Device device);
Tensor scatter_workspace(const Windows& windows, int64_t N, DType dtype, Device device);
Tensor correlate_workspace(const Windows& windows, int64_t N, DType dtype, Device device);

namespace cpu {

// grid[n, o, p] = act(sum_k w[o, k] * col[k, n, p] + b[o]) + beta * grid[n, o, p]; b may be empty.
// beta is 0 if there is an activation.
void gather_windows(GradTarget grid, View image, View w, View b, Activation activation,
                    const Windows& windows, View workspace);
// image[n, c, :] = b[c] + the sum over all (k, p) that see a pixel of sum_o w[o, k] * grid[n, o, p]
//                  + beta * image[n, c, :]; b may be empty.
void scatter_windows(GradTarget image, View grid, View w, View b, const Windows& windows,
                     View workspace);
// w[o, k] = sum_(n, p) grid[n, o, p] * col[k, n, p] + beta * w[o, k].
void correlate_windows(GradTarget w, View grid, View image, const Windows& windows, View workspace);

// db[c] = sum_(n, p) dy[n, c, p] + beta * db[c]. Scratch: channel_sums_scratch(1, ...).
void channel_sum(GradTarget db, View dy, View scratch);

}  // namespace cpu

// Of each of the three products: every weight once for every cell of the grid.
inline double flops_of(const Windows& windows, const View& grid) {
  return 2 * double(grid.numel()) * double(windows.taps());
}

template <>
struct WorkOf<cpu::gather_windows> {
  Work operator()(const GradTarget& grid, const View& image, const View& w, const View& b,
                  Activation, const Windows& windows, const View&) const {
    return {.flops = flops_of(windows, grid.grad),
            .bytes = bytes_of(grid) + bytes_of(image) + bytes_of(w) + bytes_of(b)};
  }
};

template <>
struct WorkOf<cpu::scatter_windows> {
  Work operator()(const GradTarget& image, const View& grid, const View& w, const View& b,
                  const Windows& windows, const View&) const {
    return {.flops = flops_of(windows, grid),
            .bytes = bytes_of(image) + bytes_of(grid) + bytes_of(w) + bytes_of(b)};
  }
};

template <>
struct WorkOf<cpu::correlate_windows> {
  Work operator()(const GradTarget& w, const View& grid, const View& image, const Windows& windows,
                  const View&) const {
    return {.flops = flops_of(windows, grid),
            .bytes = bytes_of(w) + bytes_of(grid) + bytes_of(image)};
  }
};

namespace cuda {
decltype(cpu::gather_windows) gather_windows;
decltype(cpu::scatter_windows) scatter_windows;
decltype(cpu::correlate_windows) correlate_windows;
decltype(cpu::channel_sum) channel_sum;
}  // namespace cuda
}  // namespace accrue
