#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue {

// sum[i] += scale * g[i] over flat views [P]; g has sum's dtype, or the next narrower: 16-bit under
// a float32 sum, float32 under a float64 one. This is the explicit accumulation of micro-batch
// gradients, with scale = n_i/N (1/K for equal micro-batches). The `separate` strategy runs it once
// per micro-batch; beta = 1 in the backward kernels makes it unnecessary. Bytes moved: read sum and
// g, write sum: 12 P in float32, 10 P for 16-bit gradients. With `enabled`, f64 [1] on
// their device, this does nothing if that is 0: the device alone may decide to drop a micro-batch.
// Throws Error unless the shapes and dtypes fit.
void accumulate(View sum, View g, double scale, View enabled = {});

}  // namespace accrue
