#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Dice loss (Milletari et al. 2016), computed for each sample and class separately.
//   loss = 1/(N K) sum_n sum_k w[k] (1 - D[n, k]),
//   D[n, k] = (2 sum p t + 1) / (sum p + sum t + 1), sums over the pixels of sample n in plane k.
// The logits x are [N, K, H, W]. The masks have one of two forms:
//   t of x's shape and type, in [0, 1]: p = s(x), the logistic function.
//   classes i32 [N, 1, H, W] in [0, K): p = softmax(x) over K, and t = 1 for the pixel's class.
// w = 1 unless class_weights has K weights, not negative and at most 64. The 1s make D = 1 where
// both the prediction and the mask are empty. A ratio of sums over all samples of a batch would not
// be a mean over samples: a window's gradient would depend on its split into micro-batches. This
// loss is the same for every split.
// If `judged` is judged_weight(masks) (kernels/judged.h), the sums are over the judged pixels, and
// a sample counts by its fraction j[n] of judged pixels:
//   loss = 1/(judged K) sum_n j[n] sum_k w[k] (1 - D[n, k]).
// Backward, with T = sum p + sum t + 1:
//   dp = dloss w[k]/(N K) ((2 sum p t + 1)/T^2 - 2 t/T).
// With `judged`, it replaces N, dp has the factor j[n], and dp is 0 where a pixel is not judged.
// Then dx = p (1 - p) dp, or p (dp - sum_c p_c dp_c) for the softmax. Keeps x (and writes dx over
// it when no one else holds it), the masks and the sums, f64 [N, K, 3].
// Throws Error unless masks and weights are as above, and if `judged` comes with masks of x's
// shape. The CPU refuses mask values out of range. CUDA gives NaN for classes out of range.
Tensor dice_loss(const Tensor& x, const Tensor& masks, std::span<const double> class_weights = {},
                 const Tensor& judged = {});

}  // namespace accrue
