#include "kernels/adaptive_pool.h"
#include "kernels/detail/adaptive_windows.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread owns windows, a grid apart.
template <class T>
__global__ void __launch_bounds__(block_threads)
    adaptive_avg_pool2d_kernel(T* y, const T* x, int64_t n, AdaptiveAxis rows,
                               AdaptiveAxis columns) {
  for (int64_t item = first_item(); item < n; item += item_stride()) {
    const int64_t j = item % columns.windows, i = item / columns.windows % rows.windows;
    const T* const in = x + item / columns.windows / rows.windows * rows.size * columns.size;
    Wide<T> sum = 0;
    for (int64_t h = rows.begin(i); h < rows.end(i); ++h)
      for (int64_t w = columns.begin(j); w < columns.end(j); ++w) sum += in[h * columns.size + w];
    y[item] = T(sum / static_cast<Wide<T>>(rows.count(i) * columns.count(j)));
  }
}

// A thread owns pixels of dx, a grid apart, and gathers from their windows.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    adaptive_avg_pool2d_backward_kernel(T* dx, const T* dy, int64_t n, AdaptiveAxis rows,
                                        AdaptiveAxis columns) {
  for (int64_t item = first_item(); item < n; item += item_stride()) {
    const int64_t w = item % columns.size, h = item / columns.size % rows.size;
    const T* const in = dy + item / columns.size / rows.size * rows.windows * columns.windows;
    Wide<T> sum = 0;
    for (int64_t i = rows.first_with(h); i <= rows.last_with(h); ++i)
      for (int64_t j = columns.first_with(w); j <= columns.last_with(w); ++j)
        sum += in[i * columns.windows + j] / static_cast<Wide<T>>(rows.count(i) * columns.count(j));
    accrue::store(dx[item], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void adaptive_avg_pool2d(View y, View x) {
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel()), adaptive_avg_pool2d_kernel<T>, y.as<T>(), x.as<const T>(),
            y.numel(), AdaptiveAxis{x.shape[2], y.shape[2]}, AdaptiveAxis{x.shape[3], y.shape[3]});
  });
}

void adaptive_avg_pool2d_backward(GradTarget dx, View dy) {
  const Shape& x = dx.grad.shape;
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(dx.grad.numel()), adaptive_avg_pool2d_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), dy.as<const T>(), dx.grad.numel(), AdaptiveAxis{x[2], dy.shape[2]},
              AdaptiveAxis{x[3], dy.shape[3]});
    });
  });
}

}  // namespace accrue::cuda
