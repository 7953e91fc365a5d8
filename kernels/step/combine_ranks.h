#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue {

// These functions combine values of ranks that share a window (accumulate/ranks.h). Row r of x [R,
// n] holds the values of rank r; y [n] is the result and may be x's first row. Both are f32, or
// both f64. Everything is computed in float64, by ascending r, and rounded once to y's dtype.
// Additions and fma() leave no choice to the compiler or the device, so every device gives the same
// bits. Throw Error unless shapes, dtypes and devices agree.

// y[i] = sum_r x[r, i]. Moves R + 1 elements for each element of y.
void sum_ranks(View y, View x);

// y[i] = x[0, i] + sum_{r > 0} weights[r] * (x[r, i] - x[0, i]), with weights f64 [R] that sum to
// 1. Where the ranks agree, this is exactly their value. Rows of weight 0 are left out. Each term
// is added by fma().
void mean_ranks(View y, View x, View weights);

}  // namespace accrue
