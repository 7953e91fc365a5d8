#include "kernels/detail/copy_strided.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/pad_border.h"

namespace accrue::cuda {
namespace {

// A thread has elements of y a grid apart: a warp writes contiguous memory, and reads it but at
// the ends of rows.
template <class T>
__global__ void __launch_bounds__(block_threads)
    pad_border_kernel(T* y, const T* x, BorderedBox box, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_stride()) {
    int64_t source = 0, rest = i, stride = 1;
    for (int d = box.rank - 1; d >= 0; --d) {
      const BorderedDimension& dimension = box.dimensions[d];
      source += dimension.source(rest % dimension.padded()) * stride;
      rest /= dimension.padded();
      stride *= dimension.n;
    }
    y[i] = x[source];
  }
}

// A thread has elements of dx a grid apart, and adds the copies of each in row-major order: one,
// but near the ends of dimensions.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    pad_border_backward_kernel(T* dx, const T* dy, BorderedBox box, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_stride()) {
    int64_t copies = 1, rest = i;
    for (int d = box.rank - 1; d >= 0; --d) {
      copies *= box.dimensions[d].copies(rest % box.dimensions[d].n);
      rest /= box.dimensions[d].n;
    }
    Wide<T> sum = 0;
    for (int64_t c = 0; c < copies; ++c) {
      int64_t from = 0, stride = 1, way = c;
      rest = i;
      for (int d = box.rank - 1; d >= 0; --d) {
        const BorderedDimension& dimension = box.dimensions[d];
        const int64_t j = rest % dimension.n, ways = dimension.copies(j);
        from += dimension.copy(j, way % ways) * stride;
        way /= ways;
        rest /= dimension.n;
        stride *= dimension.padded();
      }
      sum += dy[from];
    }
    store(dx[i], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void pad_border(View y, View x, const BorderedBox& box) {
  dispatch_bits(x.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel()), pad_border_kernel<T>, bits_of<T>(y), bits_of<const T>(x), box,
            y.numel());
  });
}

void pad_border_backward(GradTarget dx, View dy, const BorderedBox& box) {
  const int64_t count = dx.grad.numel();
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(count), pad_border_backward_kernel<accumulate.value, T>, dx.grad.as<T>(),
              dy.as<const T>(), box, count);
    });
  });
}

}  // namespace accrue::cuda
