#pragma once

#include <optional>

#include "job/notices.h"
#include "job/request.h"
#include "train/score.h"

namespace accrue::detail {

// The scores of the parts of a data set that were scored.
struct Scores {
  std::optional<Score> training, test;
};

// Scores a request's weights and reports each score. If `split` is empty, scores training and test
// data. For texts it scores the test data alone: a corpus is large, and its held-out part answers
// the question. Throws Error, and Stopped if `stop` returns Stop::now before the end.
Scores score_of(const Request& request, std::optional<ScoredSplit> split, const Notices& notices,
                const StopRequest& stop = never_stop);

// The network's answers [N, ...], on the cpu, to `samples`. These lie on the cpu and have the field
// that the network sees, pixels or numbers.
Tensor answers_of(const Request& request, Dataset samples, const Notices& notices,
                  const StopRequest& stop = never_stop);

}  // namespace accrue::detail
