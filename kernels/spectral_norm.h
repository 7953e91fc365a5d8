#pragma once

#include "core/tensor.h"

namespace accrue::detail {

// y[o, k] = w[o, k] / sigma, sigma = sum_(o, k) u[o] * w[o, k] * v[k].
// w [O, ...] is float32 or float64 and taken as a matrix [O, K]; u [O] and v [K] are constants. If
// u and v are w's first singular vectors, sigma is w's largest singular value, and y's largest is 1
// (Miyato et al. 2018). y has w's shape.
// Backward: dw[o, k] = (dy[o, k] - s * u[o] * v[k]) / sigma, s = sum_(o, k) dy[o, k] * y[o, k].
// This includes the gradient through sigma, as in PyTorch.
// An op reads y in place of the weight (operand() in kernels/backend.h). If w has a 16-bit copy, y
// is computed from the float32 w and rounded once to the dtype of the copy. Its gradient still has
// w's dtype, so no gradient on the way to w is rounded to 16 bits. Hence only ops that give their
// weight a float32 gradient beside 16-bit operands can read such a y: linear, conv2d and
// conv_transpose2d.
// Keeps w, u, v and sigma, which must not change before backward. dw goes over dy where it can.
// A w that u and v map to 0 gives infinities and NaN, as in PyTorch.
// Throws Error unless the shapes and dtypes agree.
Tensor spectral_normalize(const Tensor& w, const Tensor& u, const Tensor& v);

// v = normalize(W^T u), then u = normalize(W v), with normalize(x) = x / max(|x|, eps). This step
// brings u and v closer to w's first singular vectors, in place. Not differentiable. Does not wait
// for the device.
// Throws Error unless the shapes and dtypes agree.
void power_iteration(const Tensor& u, const Tensor& v, const Tensor& w, double eps = 1e-12);

}  // namespace accrue::detail
