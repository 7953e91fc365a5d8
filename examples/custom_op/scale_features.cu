// The CUDA kernels, with the same arguments. They are enqueued on accrue's stream; nothing here
// waits or allocates.

#include <accrue/own_op.h>

#include <accrue/core/launch.cuh>

using namespace accrue;
using namespace accrue::cuda;

namespace custom::cuda {
namespace {

// A thread processes elements with the grid as its stride, so that a warp's accesses are
// contiguous. The same thread reads each element before writing it, so y may be x.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    multiply_rows_kernel(T* y, const T* x, const T* a, int64_t numel, int64_t I) {
  for (int64_t i = first_item(); i < numel; i += item_stride())
    store(y[i], x[i] * a[i % I], std::bool_constant<accumulate>{});
}

// A thread goes down the rows of one feature, next to its neighbors' features.
template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_products_kernel(T* da, float beta, const T* dy, const T* x, int64_t N, int64_t I) {
  for (int64_t i = first_item(); i < I; i += item_stride()) {
    double sum = 0;
    for (int64_t n = 0; n < N; ++n) sum += double(dy[n * I + i]) * double(x[n * I + i]);
    da[i] = blend(static_cast<T>(sum), beta, da[i]);
  }
}

}  // namespace

void multiply_rows(GradTarget y, View x, View a) {
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(y.beta, [&](auto accumulate) {
      enqueue(grid_over(x.numel()), multiply_rows_kernel<accumulate.value, T>, y.grad.as<T>(),
              x.as<const T>(), a.as<const T>(), x.numel(), a.numel());
    });
  });
}

void sum_products(GradTarget da, View dy, View x) {
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(x.shape[1]), sum_products_kernel<T>, da.grad.as<T>(), da.beta,
            dy.as<const T>(), x.as<const T>(), x.shape[0], x.shape[1]);
  });
}

}  // namespace custom::cuda
