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

// Scores the weights that a request begins with, and tells of each score. Without a split both
// parts are scored; of texts the test alone, for corpora are large, and their held-out part tells
// what is asked. Throws Error, and Stopped if `stop` says Stop::now on the way.
Scores score_of(const Request& request, std::optional<ScoredSplit> split, const Notices& notices,
                const StopRequest& stop = never_stop);

// What their network answers to samples of the field that it sees, pixels or numbers, which lie on
// the cpu: [N, ...], there.
Tensor answers_of(const Request& request, Dataset samples, const Notices& notices,
                  const StopRequest& stop = never_stop);

}  // namespace accrue::detail
