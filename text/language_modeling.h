#pragma once

#include "text/language_model.h"
#include "train/objective.h"

namespace accrue {

// Prediction of the next token at each position of rows of tokens. Fields `tokens`, `positions` and
// `labels` are i32 [N, T]; the model is a LanguageModel. The loss is the mean cross-entropy over
// the labels that are not not_judged (kernels/judged.h), and so is the score; perplexity is
// exp(loss). Micro-batches are weighted by their number of such labels. The logits never exist as a
// whole (kernels/linear_cross_entropy.h). In training the loss is computed in its backward, or when
// somebody reads it before.
ObjectivePtr language_modeling();

namespace detail {

// The loss of rows: the sum over the labels that count, divided by T times `judged`. With judged =
// judged_weight(labels) that is the mean over the labels that count; with judged = 1 the sum is
// divided by T. Rows are computed in pieces of pass.piece tokens if they are longer than that.
Tensor loss_of_tokens(const LanguageModel& network, const TokenRows& rows, const Tensor& labels,
                      const Tensor& judged, const Pass& pass);

}  // namespace detail

}  // namespace accrue
