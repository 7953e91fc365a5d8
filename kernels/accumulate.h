#pragma once

#include "core/view.h"

namespace accrue {

// sum[i] += scale * g[i] over flat views [P]. The explicit accumulation of micro-batch gradients,
// with scale = n_i/N (1/K for equal micro-batches): what the `separate` strategy does once per
// micro-batch, and what beta = 1 in the backward kernels makes unnecessary.
// Bytes moved: read sum and g, write sum: 12 P in float32.
void accumulate(View sum, View g, double scale);

// Sum of squares of g [P], in double, and whether every element is finite (both fall out of one
// read). Summed in fixed blocks: the result does not depend on the thread count.
struct GradientNorm {
  double sum_of_squares = 0;
  bool finite = true;
};
GradientNorm gradient_norm(View g);

}  // namespace accrue
