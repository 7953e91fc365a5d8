#pragma once

#include "train/weighted_objectives.h"

namespace accrue::detail {

// For a class at each place of a sample, such as each token of a row: logits [N, T, C] and labels
// i32 [N, T], of which any may be not_judged. The loss is that of classification(), a mean over the
// weights of all judged labels in the window. The score has the accuracy over these labels, and
// where they count alike the perplexity, exp(loss).
// Throws Error if samples have weights. Its loss throws Error unless the shapes agree.
ObjectivePtr classification_of_places(const Field& labels, ClassificationOptions options);

}  // namespace accrue::detail
