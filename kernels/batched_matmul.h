#pragma once

#include "core/tensor.h"
#include "kernels/detail/transpose.h"

namespace accrue {

// c[.., m, n] = sum_k A[.., m, k] * B[.., k, n], A = op(a) [.., M, K], B = op(b) [.., K, N]: with
// Transpose::yes an operand has its last two dimensions the other way round, and is read in place.
// The dimensions before them, which number products, are broadcast as NumPy does it: compared from
// the last on, two agree, or one is 1 or missing and serves all. An operand [K] is a row a, or a
// column b, and c then has no such dimension.
// Backward: dA = dc B^T, dB = A^T dc, summed over the products that an operand serves. Where b
// serves all and a is not transposed, c and both gradients are single products of all rows.
// Otherwise one product after another is added by beta = 1, in 16 bits to a sum in float. Keeps a
// and b. Scratch: that sum, of a matrix on the cpu and of neighbouring ones on cuda. Throws Error
// unless the sizes agree, and for a transposed operand [K].
Tensor matmul(const Tensor& a, const Tensor& b, Transpose a_op = Transpose::no,
              Transpose b_op = Transpose::no);

}  // namespace accrue
