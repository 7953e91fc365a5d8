#pragma once

#include "core/rule.h"
#include "kernels/activation.h"
#include "kernels/detail/transpose.h"

namespace accrue {

// Products by a frozen weight w [R, C] that is stored in blocks, or as numbers of another type than
// the op computes in (core/dtype.h, is_stored_type()). A slab of rows of w after the other is
// converted to the dtype of the other operand, in scratch that stays in the cache, and multiplied
// as any matrix: each block is widened once a product, however many rows the other operand has.

// The bytes of that scratch on the cpu: of at most 256 Ki elements, or 16 rows, in float32 and
// float64. In 16 bits, where a result that is a sum over slabs would be rounded for each, and on
// cuda it is w as a whole.
int64_t widened_bytes(const View& w, DType dtype, Device device);

namespace cpu {
// out[r, c] = w[begin + r, c], rounded once to out's dtype.
void widen_rows(View out, View w, int64_t begin);

// c = act(a op(w) + bias) + beta * c: a [N, C] with Transpose::yes, or a [N, R], and then there is
// no bias and no activation. c is of a's dtype or wide. `scratch` has widened_bytes().
void quantized_matmul(GradTarget c, View a, View w, Transpose w_op, View bias,
                      Activation activation, View scratch);
}  // namespace cpu

namespace cuda {
decltype(cpu::widen_rows) widen_rows;
}

}  // namespace accrue
