#pragma once

#include <span>

#include "core/tensor.h"

namespace accrue {

// Dice loss (Milletari et al. 2016), of each sample and class by itself. Logits x [N, K, H, W] and
// masks t: either of x's shape and type, in [0, 1], with p = s(x), the logistic function; or
// classes i32 [N, 1, H, W] in [0, K), with p = softmax(x) over K, and t = 1 for the pixel's class:
//   loss = 1/(N K) sum_n sum_k w[k] (1 - D[n, k])
//   D[n, k] = (2 sum p t + 1) / (sum p + sum t + 1)          over the pixels of sample n in plane k
// with w = 1 unless class_weights has K of them, not negative and at most 64. The 1s make D = 1
// where there is neither answer nor mask. A ratio of sums over all samples of a batch would be no
// mean over samples, so a window's gradient would depend on how it is cut into micro-batches. This
// loss is the same for every split. If `judged` is judged_weight(masks) (kernels/judged.h), the
// sums are over the judged pixels, and the mean over samples counts each by them:
//   loss = 1/(judged K) sum_n j[n] sum_k w[k] (1 - D[n, k])     j[n] judged pixels of n / all of n
// Backward: with T = sum p + sum t + 1, dp = dloss w[k]/(N K) ((2 sum p t + 1)/T^2 - 2 t/T) (or
// j[n] times that with `judged` for N, and 0 where a pixel is not judged), and dx = p (1 - p) dp,
// or of softmax p (dp - sum_c p_c dp_c). Keeps x (and writes dx over it when nobody else holds it),
// the masks and the sums f64 [N, K, 3]. Throws Error unless masks and weights are as above, for
// `judged` beside masks of x's shape; values of masks out of range are refused on the CPU, and give
// NaN on CUDA where they are classes.
Tensor dice_loss(const Tensor& x, const Tensor& masks, std::span<const double> class_weights = {},
                 const Tensor& judged = {});

}  // namespace accrue
