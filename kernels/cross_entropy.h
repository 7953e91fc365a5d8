#pragma once

#include "core/tensor.h"

namespace accrue {

// loss = -1/N sum_n log softmax(x[n, :])[label[n]], logits x [N, C], labels [N] i32 in [0, C).
// Backward: dx[n, c] = dloss/N * (softmax(x[n, :])[c] - [c = label[n]]). The engine's seed, which
// includes the loss scale and the micro-batch's share of the window, arrives in dloss and costs
// nothing; backward also takes a LossSeed. Softmax and sums are computed around the row's maximum,
// so no logit overflows, and a small loss keeps its digits.
// Keeps x (and writes dx over it when nobody else holds it) and the labels.
// Throws Error unless the shapes agree and every label is in range; on Device::cuda, where no
// kernel can throw, a label out of range gives a NaN loss and NaN in its row of dx.
Tensor cross_entropy(const Tensor& x, const Tensor& labels);

namespace detail {

// Adds this micro-batch's part of an evaluation to score, f64 [2] on x's device:
//   score[0] += -sum_n log softmax(x[n, :])[label[n]]
//   score[1] += the number of rows n whose largest entry, the first of equals, is at label[n]
// x and labels as for cross_entropy. A row with a NaN is never right. Not differentiable.
// Throws Error as cross_entropy does, and unless score is as above.
void add_score(const Tensor& score, const Tensor& x, const Tensor& labels);

}  // namespace detail

}  // namespace accrue
