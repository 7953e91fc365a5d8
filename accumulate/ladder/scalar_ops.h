#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue::ladder {

// Accumulation as a first version usually does it: one element at a time. All views f32 [n], of one
// parameter.

// t[i] = scale * g[i]: read g, write t, 8 n bytes.
void scale_scalar(View t, View g, double scale);
// sum[i] += t[i]: read sum and t, write sum, 12 n bytes.
void add_scalar(View sum, View t);
// Both in one kernel: sum[i] += scale * g[i]. The product stays in a register: 12 n bytes.
void accumulate_scalar(View sum, View g, double scale);

}  // namespace accrue::ladder
