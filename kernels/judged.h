#pragma once

#include <cstdint>

#include "core/inside.h"
#include "core/tensor.h"

namespace accrue {

// The label of a place without a judgment, such as the pixels between two objects in the masks of
// PASCAL VOC. It counts in no loss and in no score.
inline constexpr int32_t not_judged = -1;

// Returns the number of samples, counted by the share of their labels i32 [N, ...] that is judged:
//   y = (number of labels that are not not_judged) / (labels of a sample).
// y is f64 [] on the labels' device. A window gives a mean over judged pixels the weight y
// (accumulate/window.h). Throws Error unless the labels are i32 and there is at least one.
Tensor judged_weight(const Tensor& labels);

// sum[0] += mean[0] * weight[0], sum and weight f64 [1], mean f32 or f64 [1], all on one device.
void add_weighted(View sum, View mean, View weight);

}  // namespace accrue
