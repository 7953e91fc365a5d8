#pragma once

#include "text/language_model.h"
#include "train/objective.h"

namespace accrue {

// The next token of each token in rows of them: fields `tokens`, `positions` and `labels`, all i32
// [N, T]. The model is a LanguageModel. The loss is the cross-entropy, a mean over the labels that
// count (not not_judged, kernels/judged.h), by which micro-batches are weighted, and so is the
// score; perplexity is exp(loss). Logits never exist as a whole
// (kernels/linear_cross_entropy.h).
ObjectivePtr language_modeling();

namespace detail {

// That loss of rows: the sum over the labels that are judged, divided by `judged` times T, so that
// judged_weight(labels) makes it their mean, and 1 all of T. In pieces of pass.piece tokens, if
// that is less than a row's.
Tensor loss_of_tokens(const LanguageModel& network, const TokenRows& rows, const Tensor& labels,
                      const Tensor& judged, const Pass& pass);

}  // namespace detail

}  // namespace accrue
