#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Cross-entropy of each pixel's class, logits x [N, C, H, W] and labels i32 [N, 1, H, W] in [0, C):
//   loss = 1/M sum_p w[t_p] * -log softmax(x_p)[t_p]        p over M pixels, t their labels
// with w = 1 unless class_weights has C of them, not negative and at most 64. These are all pixels,
// M = N H W, unless `judged` is judged_weight(labels) (kernels/judged.h): then they are those that
// are judged, M = judged H W, and without any the loss is 0. The sum is divided by the number of
// pixels, so that a window adds up the same for every split into micro-batches. PyTorch's
// CrossEntropyLoss(weight) divides by the sum of the pixels' weights instead.
// Backward: dx[n, c, p] = dloss/M * w[t] * (softmax(x_p)[c] - [c = t]), 0 where a pixel is not
// judged; it keeps tensors (and `judged`), takes a seed, keeps digits and treats labels out of
// range as cross_entropy() does. Throws Error as cross_entropy() does, and for weights that are not
// as above.
Tensor pixel_cross_entropy(const Tensor& x, const Tensor& labels,
                           std::span<const double> class_weights = {}, const Tensor& judged = {});

}  // namespace accrue
