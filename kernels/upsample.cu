#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/upsample_kernels.h"

namespace accrue::cuda {
namespace {

// A thread writes whole vectors of a row of y, a grid apart. y is usually larger than x, so its
// accesses should be wide. Neighbours that read one pixel of x share its cache line. A thread
// divides once for the columns of a vector, and then updates quotient and remainder by additions.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    resize_kernel(T* y, const T* x, int64_t vectors, ResizedAxis rows, ResizedAxis columns) {
  const int64_t parts = columns.out / width;
  const int64_t step = columns.in / columns.out, rest = columns.in % columns.out;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const int64_t row = v / parts, first = v % parts * width;
    const T* in = x + rows.source(row) * columns.in;
    int64_t w = columns.source(first), over = first * columns.in - w * columns.out;
    Vector<T, width> out;
    for (int k = 0; k < width; ++k) {
      out.values[k] = in[w];
      w += step, over += rest;
      if (over >= columns.out) ++w, over -= columns.out;
    }
    reinterpret_cast<Vector<T, width>*>(y)[v] = out;
  }
}

// A thread owns pixels of dx, a grid apart, and sums the pixels of dy that read each one. So it
// needs no atomics, and a warp reads contiguous parts of dy's rows. It sums row by row, so that the
// rounding error grows with the sides of that part, not its area.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    resize_backward_kernel(T* dx, const T* dy, int64_t pixels, ResizedAxis rows,
                           ResizedAxis columns) {
  for (int64_t pixel = first_item(); pixel < pixels; pixel += item_stride()) {
    const int64_t row = pixel / columns.in, w = pixel % columns.in;
    const int64_t h_end = rows.first(row + 1);
    const int64_t w_begin = columns.first(w), w_end = columns.first(w + 1);
    Wide<T> sum = 0;
    for (int64_t h = rows.first(row); h < h_end; ++h) {
      Wide<T> of_row = 0;
      for (int64_t k = w_begin; k < w_end; ++k) of_row += dy[h * columns.out + k];
      sum += of_row;
    }
    store(dx[pixel], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void resize_nearest(View y, View x) {
  const ResizedAxis rows(x.shape[2], y.shape[2]), columns(x.shape[3], y.shape[3]);
  dispatch_floating(x.dtype, [&]<class T>() {
    with_width<T>(columns.out, {y.as<T>()}, [&](auto width) {
      const int64_t vectors = y.numel() / width;
      enqueue(grid_over(vectors), resize_kernel<width.value, T>, y.as<T>(), x.as<const T>(),
              vectors, rows, columns);
    });
  });
}

void resize_nearest_backward(GradTarget dx, View dy) {
  const ResizedAxis rows(dx.grad.shape[2], dy.shape[2]), columns(dx.grad.shape[3], dy.shape[3]);
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(dx.grad.numel()), resize_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), dy.as<const T>(), dx.grad.numel(), rows, columns);
    });
  });
}

}  // namespace accrue::cuda
