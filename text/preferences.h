#pragma once

#include "train/objective.h"

namespace accrue::detail {

// DPO (Rafailov et al., "Direct Preference Optimization", 2023) trains a model to make the chosen
// answer to a prompt more likely than the rejected one.
//   L = -1/N sum_n log sigmoid(m[n]),   m[n] = r[n, chosen] - r[n, rejected].
//   r[n, a] = beta (log p(y[n, a] | x[n]) - log q(y[n, a] | x[n])).
// Here p is the model, which has adapters (text/lora.h). q is the same model without its adapters
// and dropout: it costs one more forward pass and no more weights. log p(y | x) is the sum over the
// answer's tokens, or with `normalized` their mean.
// Fields `tokens`, `positions` and `answers` are i32 [N, T]. The first T / 2 elements of a row
// belong to the chosen text and the others to the rejected one; `answers` has the labels of the
// answers only (text/rows.h). The output of the model for a sample is m. All pairs have the same
// weight. The two texts of a sample are computed one after the other, each in pieces if Pass::piece
// is set.
// A score has `reward_accuracy`, the percentage of samples with m[n] > 0, and `reward_margin`, the
// mean of m.
// Throws Error for a model whose other weights are not fixed.
struct PreferenceOptions {
  double beta = 0.1;
  bool normalized = false;
};
ObjectivePtr preferences(const PreferenceOptions& options = {});

}  // namespace accrue::detail
