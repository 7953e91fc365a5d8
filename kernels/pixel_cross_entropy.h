#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Cross-entropy of each pixel's class, with logits x [N, C, H, W] and labels i32 [N, 1, H, W] in
// [0, C).
//   loss = 1/M sum_p w[t_p] * -log softmax(x_p)[t_p]        p over M pixels with labels t_p
// w = 1 unless class_weights has C weights, not negative and at most 64. By default p runs over all
// M = N H W pixels. If `judged` is judged_weight(labels) (kernels/judged.h), p runs over the
// M = judged H W judged pixels; without any the loss is 0. The divisor is the number of pixels, so
// that a window adds up the same for every split into micro-batches. PyTorch's
// CrossEntropyLoss(weight) divides by the sum of the pixels' weights instead.
// Backward: dx[n, c, p] = dloss/M * w[t] * (softmax(x_p)[c] - [c = t]), 0 where a pixel is not
// judged. Like cross_entropy(), it keeps tensors (and also `judged`), takes a LossSeed, loses no
// digits and treats labels out of range. Throws Error as cross_entropy() does, and unless the
// weights are as above.
Tensor pixel_cross_entropy(const Tensor& x, const Tensor& labels,
                           std::span<const double> class_weights = {}, const Tensor& judged = {});

}  // namespace accrue
