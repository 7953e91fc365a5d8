#pragma once

#include <cstdint>

namespace accrue::cpu {

// x[i] = erfc(x[i]) for i < n, and x[i] = exp(x[i]).
//
// The operations are those of erfcf and expf in the GNU C library 2.36, in its order, so that
// results have its bits. But no branch is left, and the compiler makes vectors of them.
void erfc_over(float* x, int64_t n);
void exp_over(float* x, int64_t n);

}  // namespace accrue::cpu
