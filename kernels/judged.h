#pragma once

#include <cstdint>

#include "core/inside.h"
#include "core/tensor.h"

namespace accrue {

// The label of a place that nobody has judged, such as the pixels between two objects in the masks
// of PASCAL VOC. It counts in no loss and in no score.
inline constexpr int32_t not_judged = -1;

// How much samples count by their labels, i32 [N, ...]: y f64 [] on their device, 1 for each sample
// whose labels are all judged,
//   y = (number of labels that are not not_judged) / (labels of a sample)
// so that a mean over judged pixels has the weight y in its window (accumulate/window.h).
// Throws Error unless the labels are i32 and at least one.
Tensor judged_weight(const Tensor& labels);

// sum[0] += mean[0] * weight[0], sum and weight f64 [1], mean f32 or f64 [1], all on one device.
void add_weighted(View sum, View mean, View weight);

}  // namespace accrue
