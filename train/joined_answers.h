#pragma once

#include "accumulate/ranks.h"
#include "core/tensor.h"

namespace accrue {

// A model's answers to samples that are compared with each other.
struct JoinedAnswers {
  Tensor all;         // [N, ...], those of lower ranks first
  int64_t begin = 0;  // the first of this rank's own
};

// Each rank sends its answers [n, ...] to all others, once. `own` is undefined on a rank without
// any: there `all` has the others' bytes, to no use. Without ranks, or with one, it is `own`. On a
// meta device nothing is sent, and `all` has `samples` rows.
// Throws Error for answers of several sizes.
JoinedAnswers join_answers(const Tensor& own, int64_t samples, Ranks* ranks);

}  // namespace accrue
