#pragma once

#include <vector>

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/channels.h"
#include "kernels/detail/conv_geometry.h"

namespace accrue {

// How a convolution walks over an image. Strides, padding and dilation are one number, or one for
// rows and one for columns: {.stride = PerAxis(2, 1)}.
struct Conv2dShape {
  detail::PerAxis stride = 1;
  detail::Padding padding = 0;
  detail::PerAxis dilation = 1;
  int64_t groups = 1;
  Channels channels = Channels::first;  // of x and y
};

//   y[n, o, h, w] = act(b[o] + sum_(c, i, j) w[o, c, i, j] * x[n, c', at(h, i), at(w, j)])
// Here at(h, i) = h * stride.h - before.h + i * dilation.h, at(w, j) likewise, and c' is c in the
// group of o: c' = o / (O / groups) * (C / groups) + c.
// x is [N, C, H, W] with zeros outside, w [O, C / groups, KH, KW], b [O] or undefined for none.
// y is [N, O, GH, GW] with
//   GH = (H + before.h + after.h - dilation.h * (KH - 1) - 1) / stride.h + 1, GW likewise.
// With groups = C, a depthwise convolution, every filter sees one channel. A sequence
// [N, C, T] is an image [N, C, 1, T], which kernels [O, C, 1, K] pass over.
// With channels last x is [N, H, W, C] and y [N, GH, GW, O]; w stays as it is. On the CPU, in
// float64 and with several groups there are no kernels for that, and x and y are permuted.
// Backward, with dz = dy * act'(y) written over dy:
//   dw[o, k] = sum_(n, p) dz[n, o, p] * col[k, n, p]     db[o] = sum_(n, p) dz[n, o, p]
//   dx[n, c, :] = the sum over all (k, p) that see a pixel of sum_o w[o, k] * dz[n, o, p]
// with k, p and col of kernels/detail/conv_geometry.h. Each group is differentiated for itself.
// Keeps x until dw is done, w, and y for an activation.
// Throws Error unless the shapes agree, groups divide C and O, and the kernel fits into the padded
// image.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dShape shape,
              Activation activation = Activation::none);

// Computes conv2d of x = concat(parts, 1) without making that tensor. y is a sum over channels:
// each part is multiplied by its channels of w and added to the same y, and backward likewise. The
// one difference is that y is rounded once for each part. Keeps the parts in place of x. With
// several groups, whose channels may be of several parts, and with channels last it does make that
// tensor and keeps it.
Tensor conv2d(const std::vector<Tensor>& parts, const Tensor& w, const Tensor& b,
              Conv2dShape shape);

}  // namespace accrue
