#pragma once

#include "core/tensor.h"

namespace accrue::detail {

// Adds to score, f64 [3 K] on x's device, the counts that determine Dice and IoU of each class. x
// are logits [N, K, H, W]. A_k are the pixels of class k according to the logits, B_k the pixels of
// class k according to the masks.
//   score[3 k] += |A_k and B_k|     score[3 k + 1] += |A_k|     score[3 k + 2] += |B_k|
// Then Dice = 2 |A and B| / (|A| + |B|) and IoU = |A and B| / (|A| + |B| - |A and B|).
// With masks of x's shape and type, in {0, 1}, a pixel is in A_k where x > 0. With masks i32
// [N, 1, H, W] of classes, it is in A_k where logit k is the largest, the first of equals. A pixel
// with a NaN logit is not in that class's A, and with masks of classes not in any A. A pixel that
// is not_judged (kernels/judged.h) is not in any A or B. Not differentiable. Throws Error unless
// masks and score are as above.
void add_mask_score(const Tensor& score, const Tensor& x, const Tensor& masks);

}  // namespace accrue::detail
