#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Losses against targets t of x's shape [N, C, ...], in which samples of F elements each may count
// differently, by s = sample_weights, f32 [N], or 1 for each sample without them.
//   loss = 1/W sum_n s[n] * 1/F sum_i l(x[n, i], t[n, i])        W = sum_n s[n]
// It is 0 if W is 0, and a mean over W, which sample_weight_sum() is for a window
// (accumulate/window.h). l(x, t) is one of
//   mse_loss         (x - t)^2
//   l1_loss          |x - t|, whose derivative at x = t is taken as 0
//   smooth_l1_loss   d = |x - t|: d < beta ? d^2 / (2 beta) : d - beta/2, so l1_loss at beta 0
//   bce_with_logits  -p[c] t log s(x) - (1 - t) log(1 - s(x)), t in [0, 1], s the logistic function
//                    and p = positive_weights, one for each c of x [N, C, ...], or 1 without them:
//                    PyTorch's pos_weight. No logit overflows
// Backward: dx[n, i] = dloss/W * s[n]/F * dl/dx(x[n, i], t[n, i]); targets and weights are
// constants. Keeps x (and writes dx over it when nobody else holds it), t, the weights and W.
// Throws Error unless the shapes agree, and if a target wants a gradient. All sample weights must
// be finite and not negative, beta a number of at least 0, and the targets of bce_with_logits in
// [0, 1]; there must be no positive weights or C of them in [0, 1e6]. No kernel can throw on
// Device::cuda: there such a target or sample weight gives NaN.
Tensor mse_loss(const Tensor& x, const Tensor& target, const Tensor& sample_weights);
Tensor l1_loss(const Tensor& x, const Tensor& target, const Tensor& sample_weights);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      const Tensor& sample_weights = {});
Tensor bce_with_logits(const Tensor& x, const Tensor& target,
                       std::span<const double> positive_weights, const Tensor& sample_weights = {});

// W of these losses, f64 [] on the weights' device. Throws Error unless they are as above.
Tensor sample_weight_sum(const Tensor& sample_weights);

namespace detail {

// Counts the labels of logits x and targets t [N, K] of one type in score, f64 [3 K] beside them.
// Label k is told where x > 0:
//   score[3 k] += both     score[3 k + 1] += told     score[3 k + 2] += the sum of t
// It is not differentiable. Throws Error unless they are as above.
void add_label_score(const Tensor& score, const Tensor& x, const Tensor& target);

}  // namespace detail

}  // namespace accrue
