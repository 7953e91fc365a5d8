#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue {

// The values that determine a dropout mask. It does not depend on the micro-batch or the row.
struct DropoutKey {
  uint64_t seed = 0;
  uint32_t layer = 0;  // tells the dropout layers of one model apart
  int64_t epoch = 0;
  Tensor samples;  // i32 [N]: the dataset index of each row of x
  // The index of x's first element in its row, if x holds only a part of each row.
  int64_t first = 0;
};

// y[n, e] = x[n, e] * keep(n, e) / (1 - p), x [N, ...] with E elements e in a row. keep is 1 with
// probability 1 - p, else 0. With i = first + e, keep is 1 if word i % 4 of Philox is at least p *
// 2^32. Its key comes from the seed, and its counter is (i / 4, samples[n], layer, epoch). The mask
// is therefore the same for every split of the rows into micro-batches or of a row into pieces, and
// in a second forward.
// Backward: dx = dy * keep / (1 - p). Keeps only the samples; backward draws the mask again.
// Writes y over x if it gets the last reference to x, and dx over dy where it can. With p = 0 it
// returns x.
// Throws Error unless p is in [0, 1), samples has an index for every row, first is not negative,
// and epoch and i / 4 fit 32 bits.
Tensor dropout(Tensor x, double p, const DropoutKey& key);

}  // namespace accrue
