#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue {

// sum[i] += scale * g[i] over flat views [P]. g has sum's dtype or the next narrower one: 16-bit
// for a float32 sum, float32 for a float64 sum. This adds micro-batch gradients explicitly, with
// scale = n_i/N (1/K for equal micro-batches). The `separate` strategy runs it once per
// micro-batch; beta = 1 in the backward kernels makes it unnecessary. Bytes moved: read sum and g,
// write sum: 12 P in float32, 10 P for 16-bit gradients. `enabled`, if given, is f64 [1] on the
// same device. Where it is 0 this does nothing, so the device can drop a micro-batch without the
// host. Throws Error unless the shapes and dtypes fit.
void accumulate(View sum, View g, double scale, View enabled = {});

}  // namespace accrue
