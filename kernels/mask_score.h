#pragma once

#include "core/tensor.h"

namespace accrue {

// Adds what an evaluation of masks sums up to score, f64 [4] on x's device. Logits x and masks t of
// one shape, t in {0, 1}; A is where x > 0, B where t = 1:
//   score[0] += sum_i l(x[i], t[i]), the loss of bce_with_logits
//   score[1] += |A and B|     score[2] += |A|     score[3] += |B|
// so that Dice = 2 |A and B| / (|A| + |B|) and IoU = |A and B| / (|A| + |B| - |A and B|). A NaN is
// not in A. Not differentiable.
// Throws Error unless the shapes agree and score is as above.
void add_mask_score(const Tensor& score, const Tensor& x, const Tensor& masks);

}  // namespace accrue
