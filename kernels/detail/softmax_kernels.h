#pragma once

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/detail/reduce_kernels.h"

namespace accrue {

enum class SoftmaxResult { probabilities, logarithms };

// How x, which is multiplied by `scale` first, becomes y.
struct SoftmaxOptions {
  SoftmaxResult result = SoftmaxResult::probabilities;
  double scale = 1;
  // How many entries a row sees. Rows belong to samples and to queries: with lengths, the sample's;
  // with `queries`, at most the number of the row's query, from 1 on.
  View lengths = {};
  int64_t rows_of_sample = 1, queries = 0;

  bool has_limits() const { return lengths.data || queries > 0; }
};

// 0 for a length that does not fit.
HOST_DEVICE inline int64_t entries_seen(const int32_t* lengths, int64_t rows_of_sample,
                                        int64_t queries, int64_t row, int64_t C) {
  int64_t seen = C;
  if (lengths) {
    seen = lengths[row / rows_of_sample];
    if (seen < 1 || seen > C) return 0;
  }
  const int64_t query = queries > 0 ? row % queries + 1 : C;
  return query < seen ? query : seen;
}

}  // namespace accrue
