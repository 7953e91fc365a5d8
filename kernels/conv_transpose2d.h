#pragma once

#include "core/tensor.h"
#include "kernels/detail/conv_geometry.h"

namespace accrue {

// How a transposed convolution walks over its result.
struct ConvTranspose2dShape {
  detail::PerAxis stride = 1;
  detail::Padding padding = 0;  // what the matching conv2d would pad, hence cut off here
  detail::PerAxis output_padding = 0;
  int64_t groups = 1;
  detail::PerAxis dilation = 1;
};

// conv2d's gradient towards its input:
//   y[n, o, h, w] = b[o] + sum over (c, p, q, i, j) of x[n, c, p, q] * w[c, o, i, j]
// The sum has all terms with p * stride - before + i * dilation = h, by rows, and
// q * stride - before + j * dilation = w, by columns.
// x is [N, C, GH, GW], w [C, O / groups, KH, KW], b [O] or undefined for none. y is [N, O, H, W]
// with H = (GH - 1) * stride - before - after + dilation * (KH - 1) + 1 + output_padding, W
// likewise. With groups, c runs over the channels of o's group, and w's o counts within the group.
// Backward, with k, p and col of kernels/detail/conv_geometry.h taken of the image dy:
//   dw[c, k] = sum_(n, p) x[n, c, p] * col[k, n, p]      db[o] = sum_(n, h, w) dy[n, o, h, w]
//   dx[n, c, p] = sum_k w[c, k] * col[k, n, p]
// Keeps x until dw is done, and w.
// Throws Error unless the shapes agree, groups divide C, 0 <= output_padding < stride or dilation,
// and y is not empty.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& b,
                        ConvTranspose2dShape shape);

}  // namespace accrue
