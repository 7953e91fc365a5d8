#pragma once

#include <cstddef>
#include <span>

#include "kernels/quantized_blocks.h"

namespace accrue {

// Writes x, whole rows of a matrix, as blocks of Q4_0, Q4_1 or Q8_0, on the host. For the elements
// x[i] of a block, in float32, with round(z) = floor(z + 1/2):
//   Q4_0: d = -x[j] / 8, j the first of the largest |x[j]|;  q[i] = min(round(x[i] / d + 8), 15).
//   Q4_1: m = min x, d = (max x - m) / 15;                   q[i] = min(round((x[i] - m) / d), 15).
//   Q8_0: d = max |x| / 127;                                 q[i] = x[i] / d, rounded, a half away
//                                                            from 0.
// 1/d is computed before d is rounded to float16. It is 0 where d is 0 or so small that its inverse
// is infinite. The bytes are the same as from ggml's quantize_row_q4_0_ref(),
// quantize_row_q4_1_ref() and quantize_row_q8_0_ref(). `blocks` has x.size() / 32 blocks, at any
// address.
// Throws Error for another type, for sizes that do not match, and for a block with an element that
// is not finite, or with a d or m that is too large for float16.
void quantize(std::span<std::byte> blocks, std::span<const float> x, DType type);

}  // namespace accrue
