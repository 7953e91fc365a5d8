#pragma once

#include "kernels/activation.h"
#include "kernels/gemm.h"

namespace accrue::cpu {

// What one product of 16-bit matrices is, besides its operands; row-major, op by Transpose.
template <class T>
struct Product16 {
  int64_t M, N, K;
  Transpose a_op, b_op;
  float beta;
  const T* bias = nullptr;  // [N]
  Activation activation = Activation::none;
};

// C[m, n] = act(sum_k op(A)[m, k] op(B)[k, n] + bias[n]) + beta * C[m, n], A and B of T, C of T or
// float; beta 0 does not read C and is what an activation needs. Sums are kept in float and rounded
// once. bfloat16 by oneDNN where the processor multiplies it; everything else tile by tile in
// float, in `scratch` of gemm_16bit_scratch() elements.
template <class C, class T>
void gemm_16bit(C* c, const T* a, const T* b, const Product16<T>& product, float* scratch);

int64_t gemm_16bit_scratch();

}  // namespace accrue::cpu
