#pragma once

#include "core/autograd.h"

namespace accrue {

// sum[i] += scale * g[i] over flat views [P]; g of sum's dtype, or of the next narrower: 16-bit
// under a float32 sum, float32 under a float64 one. The explicit accumulation of micro-batch
// gradients, with scale = n_i/N (1/K for equal micro-batches): what the `separate` strategy does
// once per micro-batch, and what beta = 1 in the backward kernels makes unnecessary. Bytes moved:
// read sum and g, write sum: 12 P in float32, 10 P for 16-bit gradients. With the window's `state`
// (kernels/step/window_state.h), nothing happens if the micro-batch judged last is not to be kept.
// Throws Error unless the shapes and dtypes fit.
void accumulate(View sum, View g, double scale, View state = {});

// The places among which a gradient's sum of squares is divided. Fixed, so that the result depends
// on no thread count, and on the CPU and on CUDA there is work for every thread.
inline constexpr int64_t norm_partials = 1024;

// partials[j] = (sum of squares of the elements of g that belong to place j) + beta * partials[j],
// partials f64 [norm_partials], g [P]. Their sum is the squared norm; it is finite if and only if
// every element of g is (float32: its squares do not overflow in double). One read of g: 4 P bytes.
void squared_norm(GradTarget partials, View g);

}  // namespace accrue
