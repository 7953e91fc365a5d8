#pragma once

#include <cstdint>

#include "kernels/cpu/bf16_pair.h"
#include "kernels/cpu/micro_kernel.h"

namespace accrue::cpu {

// A matrix product that finds its operands through tables of offsets. This way a convolution's
// columns are read where they lie in the image and are never written out.
//   c[m * N + n] = sum_k a[a_row[m] + a_col[k]] * b[b_row[k] + n]   (+ c[m * N + n])
// for m < M and n < N, where N is a multiple of lanes<T>. If multiplies_bfloat16_pairs(), T may be
// BFloat16Pair: a product is then the sum over both elements, and a's offsets count single
// elements.
struct IndirectGemm {
  int64_t M, N, K;
  const int32_t *a_row, *a_col, *b_row;
};

// Runs on one thread.
template <class T>
void indirect_gemm(typename Arithmetic<T>::Sum* c, const typename Arithmetic<T>::Left* a,
                   const T* b, const IndirectGemm& g, Result result);

// out[j * stride + i] = in[i * in_stride + j] for i < rows, j < columns; zero for rows <= i <
// stride. stride is a multiple of lanes<T>.
template <class T>
void transpose(T* out, int64_t stride, const T* in, int64_t in_stride, int64_t rows,
               int64_t columns);

}  // namespace accrue::cpu
