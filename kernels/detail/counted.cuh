#pragma once

#include "kernels/detail/counted.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {

// The mean, from the sums of blocks or rows. One block computes it: each thread adds every 256th
// sum.
template <class W>
__global__ void __launch_bounds__(block_threads)
    mean_of_counted_kernel(W* loss, const double* sums, int64_t count, Counted counted) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += sums[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) *loss = static_cast<W>(counted.mean_of(sum));
}

}  // namespace accrue::cuda
