#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue {

// What ranks that share a window have becomes one (accumulate/ranks.h): x [R, n] has a row of each,
// y [n] is their combination and may be x's first row. Both are f32, or both f64; all is computed
// in float64, by ascending r, and rounded once to y's dtype. Neither adding nor fma() leaves
// anything to the compiler or the device, so every device gives the same bits. Throw Error unless
// shapes, dtypes and devices agree.

// y[i] = sum_r x[r, i]. Moves R + 1 elements for each of y.
void sum_ranks(View y, View x);

// y[i] = x[0, i] + sum_{r > 0} weights[r] * (x[r, i] - x[0, i]), weights f64 [R], which sum to 1:
// where the ranks agree, exactly their value. Rows of weight 0 are left out. Each term is added by
// fma().
void mean_ranks(View y, View x, View weights);

}  // namespace accrue
