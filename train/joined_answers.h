#pragma once

#include "accumulate/ranks.h"
#include "core/tensor.h"

namespace accrue {

// A model's answers to samples that the loss or score compares with each other.
struct JoinedAnswers {
  Tensor all;         // [N, ...], in order of rank
  int64_t begin = 0;  // the index of this rank's first answer
};

// Each rank sends its answers [n, ...] to all others, once. `own` is undefined on a rank without
// answers; there `all` only holds the others' bytes. Without ranks, or with one, `all` is `own`. On
// a meta device nothing is sent, and `all` has `samples` rows. Throws Error if the ranks' answers
// differ in size.
JoinedAnswers join_answers(const Tensor& own, int64_t samples, Ranks* ranks);

}  // namespace accrue
