#pragma once

#include <cstdint>

namespace accrue::cpu {

// x[i] = erfc(x[i]) for i < n, and x[i] = exp(x[i]).
//
// The operations and their order are erfcf's and expf's in the GNU C library 2.36, so that results
// have its bits. But they are vectors' operations. exp(x) is for x < 89.
void erfc_over(float* x, int64_t n);
void exp_over(float* x, int64_t n);

}  // namespace accrue::cpu
