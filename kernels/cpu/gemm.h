#pragma once

#include "core/view.h"
#include "kernels/activation.h"
#include "kernels/cpu/micro_kernel.h"
#include "kernels/detail/transpose.h"

namespace accrue::cpu {

// Describes a product of row-major matrices, without its operands; op is that of Transpose.
template <class T>
struct Gemm {
  int64_t M, N, K;
  Transpose a_op, b_op;
  float beta;
  const T* bias = nullptr;  // [N]
  Activation activation = Activation::none;
  // From a row of A or C to the next, if these are columns of wider matrices; 0: their own width.
  int64_t a_stride = 0, c_stride = 0;

  // From a row of a matrix to the next, as it lies.
  int64_t row_of_a() const { return a_stride > 0 ? a_stride : a_op == Transpose::yes ? M : K; }
  int64_t row_of_b() const { return b_op == Transpose::yes ? K : N; }
  int64_t row_of_c() const { return c_stride > 0 ? c_stride : N; }
};

// C[m, n] = act(sum_k op(A)[m, k] op(B)[k, n] + bias[n]) + beta * C[m, n], A and B of T, C of T or
// Wide<T>; beta 0 does not read C and is what an activation needs. Sums are kept in Wide<T> and
// rounded once. bfloat16 by oneDNN where the processor multiplies it.
template <class C, class T>
void gemm(C* c, const T* a, const T* b, const Gemm<T>& product);

// Rows `stride` elements apart.
template <class T>
struct Matrix {
  T* data;
  int64_t stride;

  Matrix from(int64_t row, int64_t column) const { return {data + row * stride + column, stride}; }
};
struct GemmSize {
  int64_t M, N, K;
};

// C = op(A) B, or C + op(A) B, on one thread; N is a multiple of lanes<T>, and the K rows of B,
// best few and of few vectors, stay in the cache.
template <class T>
void multiply_panel(Matrix<T> c, Matrix<const T> a, Transpose a_op, Matrix<const T> b,
                    const GemmSize& size, Result result);

}  // namespace accrue::cpu
