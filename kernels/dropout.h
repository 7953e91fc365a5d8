#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue {

// A dropout mask depends on these alone, not on the micro-batch or the place in it.
struct DropoutKey {
  uint64_t seed = 0;
  uint32_t layer = 0;  // tells the dropout layers of one model apart
  int64_t epoch = 0;
  Tensor samples;  // i32 [N]: the dataset index of each sample
  // The place of x's first element in its sample, if x has a part of each sample.
  int64_t first = 0;
};

// y[n, e] = x[n, e] * keep(n, e) / (1 - p), x [N, ...] with E elements e in a sample, or [N T, ...]
// with T rows of each, one after the other. keep is 1 with probability 1 - p, else 0: word i % 4 of
// Philox, i = first + e, under a key made of the seed and a counter of (i / 4, samples[n], layer,
// epoch), is at least p * 2^32. A mask thus is the same for every split of the samples into
// micro-batches, and of a sample into pieces, and in a second forward.
// Backward: dx = dy * keep / (1 - p). Keeps only the samples; backward draws the mask again.
// Writes y over x when handed its last reference, and dx over dy where it can. p 0 returns x.
// Throws Error unless p is in [0, 1), x has as many rows of each sample, first is not negative, and
// epoch and i / 4 fit 32 bits.
Tensor dropout(Tensor x, double p, const DropoutKey& key);

// y[n, e] = x[n, e] * keep(n) / (1 - p): whole samples become 0 (Huang et al. 2016, "Deep networks
// with stochastic depth"), x as above. keep(n) is the keep(n, 0) of dropout() under this key, whose
// `first` has no effect, and so is the same for every split of the samples into micro-batches.
// Backward: dx = dy * keep / (1 - p). Keeps and writes over what dropout() does; p 0 returns x.
// Throws Error as dropout() does.
Tensor stochastic_depth(Tensor x, double p, const DropoutKey& key);

}  // namespace accrue
