#pragma once

#include "train/objective.h"

namespace accrue::detail {

// The answer to a prompt that somebody has chosen is to become likelier than the one that was
// rejected: DPO (Rafailov et al., "Direct Preference Optimization", 2023),
//   L = -1/N sum_n log sigmoid(m[n]),   m[n] = r[n, chosen] - r[n, rejected]
//   r[n, a] = beta (log p(y[n, a] | x[n]) - log q(y[n, a] | x[n]))
// with p the model, which has adapters (text/lora.h), and q the same without them, and without
// dropout: it is computed beside p, for one more forward and no more weights. log p(y | x) is the
// sum over the tokens that are an answer's, or of `normalized` their mean.
// Fields `tokens`, `positions` and `answers`, all i32 [N, T], whose first T / 2 are the chosen text
// and the others the rejected one, each with the labels of its answer alone (text/rows.h). The
// answers of a model are m. Each pair counts alike. Texts are computed one by one, in pieces
// (Pass::piece), too.
// A score has `reward_accuracy`, the percentage of samples with m[n] > 0, and
// `reward_margin`, the mean of m.
// Throws Error for a model whose other weights are not fixed.
struct PreferenceOptions {
  double beta = 0.1;
  bool normalized = false;
};
ObjectivePtr preferences(const PreferenceOptions& options = {});

}  // namespace accrue::detail
