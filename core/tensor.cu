#include "core/cuda.h"
#include "core/inside.h"
#include "core/launch.cuh"

namespace accrue::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T* x, int64_t n, T value) {
  for (int64_t i = first_item(); i < n; i += item_stride()) x[i] = value;
}

}  // namespace

void fill(const View& x, double value) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(x.numel()), fill_kernel<T>, x.as<T>(), x.numel(),
            static_cast<T>(static_cast<Wide<T>>(value)));
  });
}

}  // namespace accrue::cuda
