#pragma once

#include "train/objective.h"

namespace accrue {

// The next token of each token in rows of them: fields `tokens`, `positions` and `labels`, all i32
// [N, T]. The model is a LanguageModel. The loss is the cross-entropy, a mean over the labels that
// count (not not_judged, kernels/judged.h), by which micro-batches are weighted, and so is the
// score; perplexity is exp(loss). Logits never exist as a whole
// (kernels/linear_cross_entropy.h).
ObjectivePtr language_modeling();

}  // namespace accrue
