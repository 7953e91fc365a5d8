#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread writes whole vectors of a row of y, a grid apart: y is factor^2 times as large as x, so
// its accesses are the ones to be wide. Neighbours that read one pixel of x share its cache line.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    upsample_kernel(T* y, const T* x, int64_t rows, int64_t W, int64_t factor) {
  const int64_t parts = W * factor / width;
  for (int64_t i = first_item(); i < rows * parts; i += item_stride()) {
    const int64_t row = i / parts, first = i % parts * width;
    const T* in = x + row / factor * W;
    int64_t w = first / factor, left = factor - first % factor;  // copies still to make of in[w]
    Vector<T, width> out;
    for (int k = 0; k < width; ++k) {
      out.values[k] = in[w];
      if (--left == 0) ++w, left = factor;
    }
    reinterpret_cast<Vector<T, width>*>(y)[i] = out;
  }
}

// A thread owns pixels of dx, a grid apart, and sums each one's square of dy: no atomics, and a
// warp reads whole stretches of dy's rows. Sums by rows, so that rounding grows with the factor.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    upsample_backward_kernel(T* dx, const T* dy, int64_t pixels, int64_t W, int64_t factor) {
  for (int64_t pixel = first_item(); pixel < pixels; pixel += item_stride()) {
    const T* square = dy + (pixel / W * factor * W + pixel % W) * factor;
    Wide<T> sum = 0;
    for (int64_t i = 0; i < factor; ++i) {
      Wide<T> of_row = 0;
      for (int64_t j = 0; j < factor; ++j) of_row += square[i * factor * W + j];
      sum += of_row;
    }
    store(dx[pixel], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void upsample_nearest(View y, View x, int64_t factor) {
  dispatch_floating(x.dtype, [&]<class T>() {
    constexpr int width = 16 / sizeof(T);
    const int64_t rows = y.shape.numel(0, 3), W = x.shape[3];
    if (is_aligned(y.as<T>(), 16) && W * factor % width == 0)
      enqueue(grid_over(y.numel() / width), upsample_kernel<width, T>, y.as<T>(), x.as<const T>(),
              rows, W, factor);
    else
      enqueue(grid_over(y.numel()), upsample_kernel<1, T>, y.as<T>(), x.as<const T>(), rows, W,
              factor);
  });
}

void upsample_nearest_backward(GradTarget dx, View dy, int64_t factor) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t pixels = dx.grad.numel();
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(pixels), upsample_backward_kernel<accumulate.value, T>, dx.grad.as<T>(),
              dy.as<const T>(), pixels, dx.grad.shape[3], factor);
    });
  });
}

}  // namespace accrue::cuda
