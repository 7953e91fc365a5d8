#pragma once

#include "text/language_model.h"
#include "train/objective.h"

namespace accrue {

namespace detail {
enum class Duplicates { negatives, ignore };
}  // namespace detail

// The scale of text_pairs(), and what it knows of equal texts.
struct TextPairOptions {
  using Duplicates = detail::Duplicates;
  double scale = 20;
  Duplicates duplicates = Duplicates::negatives;
  bool some_are_equal = false;  // the data have `texts`
};

// The embeddings of texts that belong together are to be nearer to each other than to the
// embeddings of all other samples of the window: MultipleNegativesRankingLoss of
// sentence-transformers. a[i], p[i] and, if samples have three texts, q[i] are the embeddings of
// the anchor, positive and negative of sample i. With a scale s,
//     L = -1/N sum_i log(exp(s a[i] p[i]) / sum_j (exp(s a[i] p[j]) + exp(s a[i] q[j])))
// An embedding is the mean of the states that the head of a LanguageModel would read, over the
// tokens of a text, divided by its norm. Fields are `tokens` and `positions`, i32 [N, T], and
// `lengths`, i32 [N, P] (text/rows.h). The loss is computed over a window (train/window_loss.h).
// The model's output is [n, P, E]. A score compares all samples of the data at once: `recall@1` is
// the percentage of the anchors to which no text is nearer than their own positive.
//
// Texts of different samples may be equal; the data mark such texts in a field `texts`
// (text/rows.h). With Duplicates::ignore, the sum over j contains equal texts only once, as their
// first occurrence, whether they are positives or negatives. A text is thus never the negative of
// an equal one. If the data have `texts`, the model's output is [n, P + 1, E], whatever the
// setting: the last row of a sample identifies its texts. recall@1 always ignores duplicates.
ObjectivePtr text_pairs(const TextPairOptions& options = {});

// The embeddings [N, E] of rows that each begin with a text, of lengths i32 [N]. Tokens after a
// text have no effect.
Tensor embed(const LanguageModel& model, const TokenRows& rows, const Tensor& lengths,
             const Pass& pass);

}  // namespace accrue
