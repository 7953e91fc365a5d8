#pragma once

#include "core/tensor.h"
#include "kernels/detail/conv_geometry.h"

namespace accrue {

// How a transposed convolution walks over its result.
struct ConvTranspose2dShape {
  int64_t stride = 1;
  detail::Padding padding = 0;  // of the matching conv2d, hence cut off here
  int64_t output_padding = 0;
};

// The transposed convolution of images, which is conv2d's gradient with respect to its input:
//    y[n, o, h, w] = b[o] + sum of x[n, c, p, q] * w[c, o, i, j] over all (c, p, q, i, j) with
//                    p * stride - before + i = h and q * stride - before + j = w
// x is [N, C, GH, GW], w [C, O, KH, KW], b [O] or undefined for none, y [N, O, H, W] with
//    H = (GH - 1) * stride - before - after + KH + output_padding, W likewise
// Backward, with k, p and col of kernels/detail/conv_geometry.h for the image dy:
//    dw[c, k] = sum_(n, p) x[n, c, p] * col[k, n, p]      db[o] = sum_(n, h, w) dy[n, o, h, w]
//    dx[n, c, p] = sum_k w[c, k] * col[k, n, p]
// Keeps w, and x until dw is done.
// Throws Error unless the shapes agree, 0 <= output_padding < stride and y is not empty.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& b,
                        ConvTranspose2dShape shape);

}  // namespace accrue
