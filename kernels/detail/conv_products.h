#pragma once

#include "core/autograd.h"
#include "kernels/activation.h"
#include "kernels/detail/conv_geometry.h"
#include "kernels/work.h"

namespace accrue {

// The three products that a convolution needs, forward and backward, in the terms of ConvGeometry:
// gather makes a convolution's y, scatter its dx, correlate its dw. For a transposed convolution
// they make dx, y and dw. cuDNN calls them forward, backward data and backward filter.

// Weights [O, C, KH, KW], and the same as gather or scatter multiplies by them, empty where it
// reads them as they lie.
struct ConvWeights {
  View w, packed;
  ConvWeights(View w, const Tensor& packed)
      : w(w), packed(packed.defined() ? packed.view() : View{}) {}
};
// Returns that form of the weights `w` of a variable: the one that the variable keeps, if it does,
// else a new one; undefined where there is none. N images share what making it costs.
Tensor packed_weights(const std::shared_ptr<Variable>& variable, View w, Direction direction,
                      const ConvGeometry& geometry, int64_t N);

// Scratch for one call on N images. On the cpu, for each thread a zero-padded band of one image or
// grid and its result; conv_correlate_workspace has partial weight gradients besides. On cuda, what
// cuDNN may use (kernels/detail/conv_cudnn.h).
Tensor conv_gather_workspace(const ConvGeometry& geometry, int64_t N, DType dtype, Device device);
Tensor conv_scatter_workspace(const ConvGeometry& geometry, int64_t N, DType dtype, Device device);
Tensor conv_correlate_workspace(const ConvGeometry& geometry, int64_t N, DType dtype,
                                Device device);

namespace cpu {

// grid[n, o, p] = act(sum_k w[o, k] * col[k, n, p] + b[o]) + beta * grid[n, o, p]; b may be empty.
// beta is 0 if there is an activation.
void conv_gather(GradTarget grid, View image, const ConvWeights& w, View b, Activation activation,
                 const ConvGeometry& geometry, View workspace);
// image[n, c, :] = b[c] + the sum over all (k, p) that see a pixel of sum_o w[o, k] * grid[n, o, p]
//                  + beta * image[n, c, :]; b may be empty.
void conv_scatter(GradTarget image, View grid, const ConvWeights& w, View b,
                  const ConvGeometry& geometry, View workspace);
// packed = w as a product in this direction multiplies by it.
void pack_weights(View packed, View w, Direction direction, const ConvGeometry& geometry);
// w[o, k] = sum_(n, p) grid[n, o, p] * col[k, n, p] + beta * w[o, k].
void conv_correlate(GradTarget w, View grid, View image, const ConvGeometry& geometry,
                    View workspace);

}  // namespace cpu

// The work of each of the three products: every weight once for every cell of the grid.
inline double flops_of(const ConvGeometry& geometry, const View& grid) {
  return 2 * double(grid.numel()) * double(geometry.taps());
}

template <>
struct WorkOf<cpu::conv_gather> {
  Work operator()(const GradTarget& grid, const View& image, const ConvWeights& w, const View& b,
                  Activation, const ConvGeometry& geometry, const View&) const {
    return {.flops = flops_of(geometry, grid.grad),
            .bytes = bytes_of(grid) + bytes_of(image) + bytes_of(w.w) + bytes_of(b)};
  }
};

template <>
struct WorkOf<cpu::conv_scatter> {
  Work operator()(const GradTarget& image, const View& grid, const ConvWeights& w, const View& b,
                  const ConvGeometry& geometry, const View&) const {
    return {.flops = flops_of(geometry, grid),
            .bytes = bytes_of(image) + bytes_of(grid) + bytes_of(w.w) + bytes_of(b)};
  }
};

template <>
struct WorkOf<cpu::conv_correlate> {
  Work operator()(const GradTarget& w, const View& grid, const View& image,
                  const ConvGeometry& geometry, const View&) const {
    return {.flops = flops_of(geometry, grid),
            .bytes = bytes_of(w) + bytes_of(grid) + bytes_of(image)};
  }
};

namespace cuda {
decltype(cpu::conv_gather) conv_gather;
decltype(cpu::conv_scatter) conv_scatter;
decltype(cpu::conv_correlate) conv_correlate;
decltype(cpu::pack_weights) pack_weights;
}  // namespace cuda
}  // namespace accrue
