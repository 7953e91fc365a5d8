#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Cross-entropy of each pixel's class, logits x [N, C, H, W] and labels i32 [N, 1, H, W] in [0, C):
//   loss = 1/(N H W) sum_p w[t_p] * -log softmax(x_p)[t_p]        p over all pixels, t their labels
// with w = 1 unless class_weights has C of them, not negative and at most 64. The sum is divided by
// the number of pixels, so that the loss is a mean over the samples, the same for every split of a
// window into micro-batches. PyTorch's CrossEntropyLoss(weight) divides by the sum of the pixels'
// weights instead, which differs from micro-batch to micro-batch.
// Backward: dx[n, c, p] = dloss/(N H W) * w[t] * (softmax(x_p)[c] - [c = t]); it keeps tensors,
// takes a seed, keeps digits and treats labels out of range as cross_entropy() does.
// Throws Error as cross_entropy() does, and for weights that are not as above.
Tensor pixel_cross_entropy(const Tensor& x, const Tensor& labels,
                           std::span<const double> class_weights = {});

}  // namespace accrue
