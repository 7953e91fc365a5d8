#pragma once

#include <cstdint>

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// The inputs that decide how a micro-batch is rounded.
struct RoundingKey {
  uint64_t seed;
  int64_t first;  // the offset in the parameters' arena of element 0 of the sum
  View window;    // the current window's outcome (kernels/step/step_outcome.h)
};

// sum[i] = round(g[i] + beta * sum[i]) over flat views [n], sum bf16 and g f32.
//
// The addition is in float32. The result is rounded at random to one of its two bfloat16 neighbors,
// with probabilities that make the expected sum equal to the float32 sum
// (accumulate/stochastic_rounding.h). Rounding to nearest would stop a sum from growing once the
// addend is below 2^-9 of it: with equal gradients, from the 257th on.
//
// Bytes moved: read sum and g, write sum: 8 n; with beta 0, 6 n. The bits are the same on every
// device and for any number of threads. Throws Error unless the shapes and dtypes fit, `first` is a
// multiple of 8, and both views begin at addresses that are multiples of 16.
void accumulate_bf16(GradTarget sum, View g, const RoundingKey& key);

}  // namespace accrue
