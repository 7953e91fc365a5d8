#pragma once

#include "core/view.h"
#include "kernels/activation.h"
#include "kernels/cpu/micro_kernel.h"
#include "kernels/detail/transpose.h"

namespace accrue::cpu {

// Describes a product of row-major matrices, without its operands. Transpose says what op() does.
template <class T>
struct Gemm {
  int64_t M, N, K;
  Transpose a_op, b_op;
  float beta;
  const T* bias = nullptr;  // [N]
  Activation activation = Activation::none;
  // Elements from a row of A or C to the next, if it is part of a wider matrix; 0: its own width.
  int64_t a_stride = 0, c_stride = 0;

  // Elements from a row of a matrix to the next, as it lies in memory.
  int64_t row_of_a() const { return a_stride > 0 ? a_stride : a_op == Transpose::yes ? M : K; }
  int64_t row_of_b() const { return b_op == Transpose::yes ? K : N; }
  int64_t row_of_c() const { return c_stride > 0 ? c_stride : N; }
};

// C[m, n] = act(sum_k op(A)[m, k] op(B)[k, n] + bias[n]) + beta * C[m, n], A and B of T, C of T or
// Wide<T>. With beta 0, C is not read; an activation requires beta 0. Sums are kept in Wide<T> and
// rounded once. oneDNN multiplies bfloat16 where the processor can.
template <class C, class T>
void gemm(C* c, const T* a, const T* b, const Gemm<T>& product);

// A matrix whose rows are `stride` elements apart.
template <class T>
struct Matrix {
  T* data;
  int64_t stride;

  Matrix from(int64_t row, int64_t column) const { return {data + row * stride + column, stride}; }
};
struct GemmSize {
  int64_t M, N, K;
};

// C = op(A) B, or C + op(A) B, on one thread. B has whole vectors in each row, also where N is no
// multiple of lanes<T>. Its K rows stay in the cache, so they should be few and consist of few
// vectors.
template <class T>
void multiply_panel(Matrix<T> c, Matrix<const T> a, Transpose a_op, Matrix<const T> b,
                    const GemmSize& size, Result result);

}  // namespace accrue::cpu
