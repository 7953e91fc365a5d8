#pragma once

#include "core/tensor.h"

namespace accrue {

// loss = -1/N sum_n log softmax(x[n, :])[label[n]], logits x [N, C], labels [N] i32 in [0, C).
// Backward: dx[n, c] = dloss/N * (softmax(x[n, :])[c] - [c = label[n]]). The engine's seed, with
// the loss scale and the micro-batch's share of the window in it, arrives in dloss and costs
// nothing. Softmax and sums are computed around the row's maximum, so no logit overflows.
// Keeps x (and writes dx over it when nobody else holds it) and the labels.
// Throws Error unless the shapes agree and every label is in range.
Tensor cross_entropy(const Tensor& x, const Tensor& labels);

// The number of rows n of x [N, C] whose largest entry is at label[n]. Not differentiable.
int64_t count_correct(const Tensor& x, const Tensor& labels);

}  // namespace accrue
