#pragma once

#include "core/autograd.h"
#include "core/inside.h"
#include "kernels/activation.h"
#include "kernels/detail/conv_geometry.h"
#include "kernels/work.h"

namespace accrue {

// The three products that a convolution needs, forward and backward, in the terms of ConvGeometry:
// gather makes a convolution's y, scatter its dx, correlate its dw. For a transposed convolution
// they make dx, y and dw, in this order. cuDNN calls them forward, backward data and backward
// filter.

// Weights [O, C, KH, KW], and the form in which Winograd's algorithm multiplies by them. `packed`
// is empty where gather or scatter reads the weights as they lie.
struct ConvWeights {
  View w, packed;
  ConvWeights(View w, const Tensor& packed)
      : w(w), packed(packed.defined() ? packed.view() : View{}) {}
  bool are_packed() const { return packed.shape.rank() > 0; }
};

// The filters of a product: w, or the part of its channels for an image. `parameter` is the
// parameter that contains w and may keep its packed form, or null if there is none.
struct Filters {
  View w;
  std::shared_ptr<Variable> parameter;
};
// Launch conv_gather, conv_scatter and conv_correlate with the scratch that they need and with
// weights in the form that they need.
void gather(GradTarget grid, const View& image, const Filters& w, const View& b,
            Activation activation, const ConvGeometry& geometry);
void scatter(GradTarget image, const View& grid, const Filters& w, const View& b,
             const ConvGeometry& geometry);
void correlate(GradTarget w, const View& grid, const View& image, const ConvGeometry& geometry);

// Scratch for one product on a device. kernels/cpu/convolution.h and kernels/detail/conv_cudnn.h
// tell its size.
struct Convolution;
Tensor conv_workspace(const Convolution& convolution, Device device);

namespace cpu {

// grid[n, o, p] = act(sum_k w[o, k] * col[k, n, p] + b[o]) + beta * grid[n, o, p]; b may be empty.
// beta is 0 if there is an activation.
void conv_gather(GradTarget grid, View image, const ConvWeights& w, View b, Activation activation,
                 const ConvGeometry& geometry, View workspace);
// image[n, c, h, w] = b[c] + beta * image[n, c, h, w] + the sum of w[o, k] * grid[n, o, p] over all
// o and all (k, p) that see the pixel; b may be empty.
void conv_scatter(GradTarget image, View grid, const ConvWeights& w, View b,
                  const ConvGeometry& geometry, View workspace);
// packed = w in the form by which a product in this direction multiplies.
void pack_weights(View packed, View w, Direction direction, const ConvGeometry& geometry);
// w[o, k] = sum_(n, p) grid[n, o, p] * col[k, n, p] + beta * w[o, k].
void conv_correlate(GradTarget w, View grid, View image, const ConvGeometry& geometry,
                    View workspace);

}  // namespace cpu

// Each of the three products multiplies every weight once for every cell of the grid.
inline double flops_of(const ConvGeometry& geometry, const View& grid) {
  return 2 * double(grid.numel()) * double(geometry.taps());
}

// Where Winograd's algorithm is used, it spares flops: 16 multiplications replace 36.
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
