#include "core/launch.cuh"
#include "kernels/backend.h"
#include "tests/faults/faults.h"

namespace accrue::test {
namespace {

using namespace accrue::cuda;

// One block. The first thread reads the values that all others wrote.
template <bool barrier, class T>
__global__ void __launch_bounds__(block_threads) total(T* y, const T* x, int64_t n) {
  __shared__ T of_thread[block_threads];
  T sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += block_threads) sum += x[i];
  of_thread[threadIdx.x] = sum;
  if constexpr (barrier) __syncthreads();
  if (threadIdx.x > 0) return;
  for (int t = 1; t < block_threads; ++t) sum += of_thread[t];
  *y = sum;
}

// One block with a thread for each element.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads) total_backward(T* dx, const T* dy, int64_t n) {
  for (int64_t i = first_item(); i < n; i += item_stride())
    store(dx[i], *dy, std::bool_constant<accumulate>{});
}

Grid one_block() { return {.blocks = 1}; }

}  // namespace

void total_kernel(View y, View x, Fault fault) {
  dispatch_wide(x.dtype, [&]<class T>() {
    const auto kernel = fault == Fault::missing_barrier ? total<false, T> : total<true, T>;
    enqueue(one_block(), kernel, y.as<T>(), x.as<const T>(), x.numel());
  });
}

void total_backward_kernel(GradTarget dx, View dy, Fault fault) {
  const int64_t n = dx.grad.numel() + (fault == Fault::overrun);
  dispatch_wide(dy.dtype, [&]<class T>() {
    with_beta(fault == Fault::overwritten ? 0 : dx.beta, [&](auto accumulate) {
      enqueue(one_block(), total_backward<accumulate.value, T>, dx.grad.as<T>(), dy.as<const T>(),
              n);
    });
  });
}

}  // namespace accrue::test
