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

// Texts that belong together are to be nearer to each other than to those of all other samples of
// the window: MultipleNegativesRankingLoss of sentence-transformers. With a[i], p[i] and, where a
// sample has three texts, q[i] the embeddings of anchor, positive and negative of sample i, and s
// the scale,
//   L = -1/N sum_i log(exp(s a[i] p[i]) / sum_j (exp(s a[i] p[j]) + exp(s a[i] q[j])))
// An embedding is the mean over a text's tokens of what the head of a LanguageModel would read,
// divided by its norm. Fields `tokens` and `positions`, i32 [N, T], and `lengths`, i32 [N, P]
// (text/rows.h). The loss is of the window (train/window_loss.h), answers are [n, P, E].
// In a score, all samples of the data are compared at once: `recall@1` is the percentage of the
// anchors to which no text is nearer than their own positive.
//
// Some texts of several samples may be equal, and the data say which, in a field `texts`
// (text/rows.h). With Duplicates::ignore each text stands once in the sum over j, be it a positive
// or a negative, as the first of its equals: none is the negative of an equal one. Answers are then
// [n, P + 1, E], for any duplicates: the last row of a sample says which texts they are. recall@1
// always ignores duplicates.
ObjectivePtr text_pairs(const TextPairOptions& options = {});

// The embeddings [N, E] of rows that are a text each, of lengths i32 [N]; what is behind a text
// counts nowhere.
Tensor embed(const LanguageModel& model, const TokenRows& rows, const Tensor& lengths,
             const Pass& pass);

}  // namespace accrue
