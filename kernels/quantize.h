#pragma once

#include <cstddef>
#include <span>

#include "kernels/quantized_blocks.h"

namespace accrue {

// Writes x, whole rows of a matrix, as blocks of Q4_0, Q4_1 or Q8_0, on the host. With the elements
// x[i] of a block, in float32, and round(z) = floor(z + 1/2):
//   Q4_0: d = -x[j] / 8, j the first of the largest |x[j]|;  q[i] = min(round(x[i] / d + 8), 15)
//   Q4_1: m = min x, d = (max x - m) / 15;                   q[i] = min(round((x[i] - m) / d), 15)
//   Q8_0: d = max |x| / 127;                                 q[i] = x[i] / d, rounded, a half away
//                                                            from 0
// 1/d is computed first, before d is rounded to float16, and is 0 where d is 0 or so small that its
// inverse is infinite. These are the bytes of ggml's quantize_row_q4_0_ref() and its like.
// `blocks` has x.size() / 32 blocks, at any address.
// Throws Error for another type, for sizes that do not go together, and for a block with an element
// that is not finite or too large for d or m to be.
void quantize(std::span<std::byte> blocks, std::span<const float> x, DType type);

}  // namespace accrue
