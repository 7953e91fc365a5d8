#pragma once

#include "core/autograd.h"
#include "core/inside.h"
#include "kernels/activation.h"
#include "kernels/detail/conv_geometry.h"
#include "kernels/work.h"

namespace accrue {

// The three products that a convolution needs, forward and backward, in the terms of ConvGeometry:
// gather makes a convolution's y, scatter its dx, correlate its dw. For a transposed convolution
// they make dx, y and dw. cuDNN calls them forward, backward data and backward filter.

// Weights [O, C, KH, KW], and the same as gather or scatter multiplies by them by Winograd's
// algorithm, empty where it reads them as they lie.
struct ConvWeights {
  View w, packed;
  ConvWeights(View w, const Tensor& packed)
      : w(w), packed(packed.defined() ? packed.view() : View{}) {}
  bool are_packed() const { return packed.shape.rank() > 0; }
};

// w, or the part of its channels that belongs to an image, and the parameter that it is of, which
// may keep its packed form; null if it is of none.
struct Filters {
  View w;
  std::shared_ptr<Variable> parameter;
};
// Launch conv_gather, conv_scatter and conv_correlate with the scratch and the form of the weights
// that they need.
void gather(GradTarget grid, const View& image, const Filters& w, const View& b,
            Activation activation, const ConvGeometry& geometry);
void scatter(GradTarget image, const View& grid, const Filters& w, const View& b,
             const ConvGeometry& geometry);
void correlate(GradTarget w, const View& grid, const View& image, const ConvGeometry& geometry);

// Scratch for one product on a device: kernels/cpu/convolution.h and kernels/detail/conv_cudnn.h
// tell how much.
struct Convolution;
Tensor conv_workspace(const Convolution& convolution, Device device);

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

// Each of the three products multiplies every weight once for every cell of the grid.
inline double flops_of(const ConvGeometry& geometry, const View& grid) {
  return 2 * double(grid.numel()) * double(geometry.taps());
}

// The same work by Winograd's algorithm, with 16 multiplications in place of 36, where it is used.
inline Work by_winograd(Work work, bool is_used) {
  if (is_used) work.spared_flops = work.flops * (1 - 16.0 / 36);
  return work;
}
bool correlates_by_winograd(const ConvGeometry& geometry, const View& grid);

template <>
struct detail::WorkOf<cpu::conv_gather> {
  Work operator()(const GradTarget& grid, const View& image, const ConvWeights& w, const View& b,
                  Activation, const ConvGeometry& geometry, const View&) const {
    return by_winograd(work_of(flops_of(geometry, grid.grad), grid, image, w.w, b), w.are_packed());
  }
};

template <>
struct detail::WorkOf<cpu::conv_scatter> {
  Work operator()(const GradTarget& image, const View& grid, const ConvWeights& w, const View& b,
                  const ConvGeometry& geometry, const View&) const {
    return by_winograd(work_of(flops_of(geometry, grid), image, grid, w.w, b), w.are_packed());
  }
};

template <>
struct detail::WorkOf<cpu::conv_correlate> {
  Work operator()(const GradTarget& w, const View& grid, const View& image,
                  const ConvGeometry& geometry, const View&) const {
    return by_winograd(work_of(flops_of(geometry, grid), w, grid, image),
                       correlates_by_winograd(geometry, grid));
  }
};

namespace cuda {
decltype(cpu::conv_gather) conv_gather;
decltype(cpu::conv_scatter) conv_scatter;
decltype(cpu::conv_correlate) conv_correlate;
decltype(cpu::pack_weights) pack_weights;
}  // namespace cuda
}  // namespace accrue
