#pragma once

#include <string_view>

#include "core/tensor.h"

namespace accrue {

// The mean cross entropy of the softmax of logits x [N, C] and the labels [N], i32 in [0, C):
//   loss = -1/N sum_n log softmax(x[n, :])[label[n]]
// Backward: dx[n, c] = dloss/N * (softmax(x[n, :])[c] - [c = label[n]]). dloss is the engine's
// seed, which already includes the loss scale and the micro-batch's share of the window; backward
// also takes a LossSeed. Softmax and sums are computed relative to the row's maximum, so no logit
// overflows, and a small loss keeps its digits.
// Keeps the labels and x; writes dx over x if nobody else holds it.
// Throws Error unless the shapes agree and every label is in range; on Device::cuda, where no
// kernel can throw, a label out of range gives a NaN loss and NaN in its row of dx.
Tensor cross_entropy(const Tensor& x, const Tensor& labels);

namespace detail {

// Throws Error, in the name of `op`, unless x is [N, C] of a floating type with N and C above 0,
// and labels are i32 [N] on its device.
void check_labels(std::string_view op, const Tensor& x, const Tensor& labels);

// Adds this micro-batch to the score of an evaluation, f64 [2] on x's device:
//   score[0] += -sum_n log softmax(x[n, :])[label[n]]
//   score[1] += the number of rows n whose first largest entry is at label[n]
// x and labels are as for cross_entropy. A row with a NaN never counts as right. Not
// differentiable.
// Throws Error as cross_entropy does, and unless score is as above.
void add_score(const Tensor& score, const Tensor& x, const Tensor& labels);

}  // namespace detail

}  // namespace accrue
