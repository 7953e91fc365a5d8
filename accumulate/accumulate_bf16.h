#pragma once

#include <cstdint>

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// What the roundings of a micro-batch depend on.
struct RoundingKey {
  uint64_t seed;
  int64_t first;  // the element of the parameters' arena that is element 0 here
  View window;    // the outcome of the window under way (kernels/step/step_outcome.h)
};

// sum[i] = round(g[i] + beta * sum[i]) over flat views [n], sum bf16 and g f32: the addition is
// float32's, and its result is rounded to one of the two neighbours in bfloat16 by chance, so that
// the mean of sum[i] over all random bits is that of the sum in float32
// (accumulate/stochastic_rounding.h). Rounded to nearest instead, a sum would stop growing as soon
// as what it grows by is less than 2^-9 of it, which equal gradients are from the 257th on.
// Bytes moved: read sum and g, write sum: 8 n; with beta 0, 6 n. The bits are the same on every
// device and for any number of threads.
// Throws Error unless the shapes and dtypes fit, `first` is a multiple of 8, and both views begin
// at addresses that are multiples of 16.
void accumulate_bf16(GradTarget sum, View g, const RoundingKey& key);

}  // namespace accrue
