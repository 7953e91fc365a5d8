#pragma once

#include "core/tensor.h"

namespace accrue {

// loss = 1/n sum_i l(x[i], t[i]) over all n elements of x and t, which have one shape. l(x, t) is:
//   mse_loss         (x - t)^2.
//   l1_loss          |x - t|, whose derivative at x = t is taken as 0.
//   bce_with_logits  -t log s(x) - (1 - t) log(1 - s(x)), s the logistic function, t in [0, 1].
//                    Computed as (x > 0 ? (1 - t) x : -t x) + log(1 + exp(-|x|)): no logit
//                    overflows, and neither term is negative, so no digits cancel.
// Backward: dx[i] = dloss/n * dl/dx(x[i], t[i]); the target is a constant. Keeps x (and writes dx
// over it when no one else holds it) and t.
// Throws Error unless the shapes agree, if the target wants a gradient, and, for bce_with_logits,
// if a target is outside [0, 1]. On cuda, where no kernel can throw, such a target gives a NaN loss
// and a NaN in dx.
Tensor mse_loss(const Tensor& x, const Tensor& target);
Tensor l1_loss(const Tensor& x, const Tensor& target);
Tensor bce_with_logits(const Tensor& x, const Tensor& target);

// bce_with_logits with t[i] = target for all i, without a tensor of targets.
// Throws Error unless x has an element and target is in [0, 1], on every device.
Tensor bce_with_logits(const Tensor& x, double target);

namespace detail {

// y = loss, for a scalar that was computed from x elsewhere together with its gradient dx, of x's
// shape. Backward: the gradient of x is dy * times * dx. Keeps dx.
// Throws Error unless x and dx have one shape and dtype, and loss is a scalar of wide() of that
// dtype.
Tensor given_loss(const Tensor& x, const Tensor& loss, const Tensor& dx, double times = 1);

}  // namespace detail

}  // namespace accrue
