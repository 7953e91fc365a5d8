#pragma once

#include "kernels/detail/reduce.cuh"
#include "kernels/detail/row_products.h"

namespace accrue::cuda {

// A block takes a piece, and its warps read contiguous memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    row_products_kernel(double* sums, const T* a, const T* b, int64_t b_stride, RowPieces cut) {
  const int64_t o = blockIdx.x / cut.pieces, p = blockIdx.x % cut.pieces, end = cut.begin(p + 1);
  a += o * cut.K;
  b += o * b_stride;
  RunningSum<Wide<T>> sum;
  for (int64_t k = cut.begin(p) + threadIdx.x; k < end; k += block_threads) sum.add(a[k] * b[k]);
  const Wide<T> total = block_sum<block_threads>(sum.total());
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Computes the same as cpu::row_products().
template <class T>
void row_products(double* sums, const T* a, const T* b, int64_t b_stride, const RowPieces& cut) {
  enqueue({dim3(static_cast<unsigned>(cut.count()))}, row_products_kernel<T>, sums, a, b, b_stride,
          cut);
}

}  // namespace accrue::cuda
