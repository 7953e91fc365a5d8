#pragma once

#include <vector>

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/detail/conv_geometry.h"

namespace accrue {

// How a convolution walks over an image.
struct Conv2dShape {
  int64_t stride = 1;
  detail::Padding padding = 0;
  int64_t dilation = 1;
};

// The convolution of images, with a bias and an activation:
//    y[n, o, h, w] = act(b[o] + sum_(c, i, j) w[o, c, i, j] * x[n, c, at(h, i), at(w, j)])
//    at(h, i) = h * stride - before + i * dilation
// x [N, C, H, W] is zero outside, w [O, C, KH, KW], b [O] or undefined for none, y [N, O, GH, GW]
// with
//    GH = (H + before + after - dilation * (KH - 1) - 1) / stride + 1, GW likewise
// Backward, with dz = dy * act'(y) written over dy, and k, p and col of
// kernels/detail/conv_geometry.h:
//    dw[o, k] = sum_(n, p) dz[n, o, p] * col[k, n, p]     db[o] = sum_(n, p) dz[n, o, p]
//    dx[n, c, h, w] = sum of w[o, k] * dz[n, o, p] over all o and all (k, p) that see the pixel
// Keeps w, x until dw is done, and y if there is an activation.
// Throws Error unless the shapes agree and the kernel fits into the padded image.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dShape shape,
              Activation activation = Activation::none);

// Computes conv2d of x = concat(parts, 1) without making that tensor. y is a sum over channels:
// each part is multiplied by its channels of w and added to the same y, and backward likewise. The
// only difference is that y is rounded once for each part. Keeps the parts in place of x.
Tensor conv2d(const std::vector<Tensor>& parts, const Tensor& w, const Tensor& b,
              Conv2dShape shape);

}  // namespace accrue
