#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread writes elements of y, a grid apart.
template <class T>
__global__ void __launch_bounds__(block_threads)
    one_hot_kernel(T* y, const int32_t* index, int64_t n, int64_t classes) {
  for (int64_t i = first_item(); i < n; i += item_stride())
    y[i] = T(i % classes == index[i / classes] ? 1.0f : 0.0f);
}

}  // namespace

void one_hot(View y, View index) {
  dispatch_floating(y.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel()), one_hot_kernel<T>, y.as<T>(), index.as<const int32_t>(),
            y.numel(), y.shape[1]);
  });
}

}  // namespace accrue::cuda
