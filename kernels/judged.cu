#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/judged.h"

namespace accrue::cuda {
namespace {

// A block counts `elements_per_block` consecutive labels; each thread takes every 256th label.
__global__ void __launch_bounds__(block_threads)
    count_judged_kernel(double* block_counts, const int32_t* labels, int64_t n) {
  const int64_t begin = blockIdx.x * elements_per_block;
  const int64_t end = n - begin < elements_per_block ? n : begin + elements_per_block;
  int count = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += block_threads)
    count += labels[i] != not_judged;
  count = block_sum<block_threads>(count);
  if (threadIdx.x == 0) block_counts[blockIdx.x] = count;
}

template <class T>
__global__ void __launch_bounds__(1)
    add_weighted_kernel(double* sum, const T* mean, const double* weight) {
  *sum += double(*mean) * *weight;
}

}  // namespace

void judged_weight(View weight, View block_counts, View labels, int64_t labels_of_sample) {
  const int64_t blocks = block_counts.numel();
  double* counts = block_counts.as<double>();
  enqueue({dim3(static_cast<unsigned>(blocks)), block_threads}, count_judged_kernel, counts,
          labels.as<const int32_t>(), labels.numel());
  enqueue({1}, mean_kernel<double>, weight.as<double>(), counts, blocks,
          static_cast<double>(labels_of_sample));
}

void add_weighted(View sum, View mean, View weight) {
  dispatch_wide(mean.dtype, [&]<class T>() {
    enqueue({dim3(1), 1}, add_weighted_kernel<T>, sum.as<double>(), mean.as<const T>(),
            weight.as<const double>());
  });
}

}  // namespace accrue::cuda
