#pragma once

#include "kernels/detail/counted.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {

// Adds up the sums of blocks or rows in one block: each thread adds every 256th sum.
__device__ inline double sum_in_block(const double* sums, int64_t count) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += sums[i];
  return block_sum<block_threads>(sum);
}

// Their mean.
template <class W>
__global__ void __launch_bounds__(block_threads)
    mean_of_counted_kernel(W* loss, const double* sums, int64_t count, Counted counted) {
  const double sum = sum_in_block(sums, count);
  if (threadIdx.x == 0) *loss = static_cast<W>(counted.mean_of(sum));
}

}  // namespace accrue::cuda
