#pragma once

#include "core/autograd.h"

namespace accrue {

// sum[i] += scale * g[i] over flat views [P]; g has sum's dtype, or the next narrower: 16-bit under
// a float32 sum, float32 under a float64 one. This is the explicit accumulation of micro-batch
// gradients, with scale = n_i/N (1/K for equal micro-batches). The `separate` strategy runs it once
// per micro-batch; beta = 1 in the backward kernels makes it unnecessary. Bytes moved: read sum and
// g, write sum: 12 P in float32, 10 P for 16-bit gradients. With the window's `state`
// (kernels/step/window_state.h), this does nothing if the micro-batch judged last is to be dropped.
// Throws Error unless the shapes and dtypes fit.
void accumulate(View sum, View g, double scale, View state = {});

// The number of partial sums that a gradient's sum of squares is divided into. It is fixed, so that
// the result does not depend on the number of threads, and large enough to give every thread work,
// on the CPU and on CUDA.
inline constexpr int64_t norm_partials = 1024;

// partials[j] = (sum of squares of the elements of g in part j) + beta * partials[j], partials f64
// [norm_partials], g [P]. Their sum is the squared norm; it is finite if and only if every element
// of g is (float32: its squares do not overflow in double). One read of g: 4 P bytes.
void squared_norm(GradTarget partials, View g);

}  // namespace accrue
