#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread writes whole vectors of a row of y, a grid apart, and gathers each vector from `factor`
// planes of x. Neighbours in a warp read neighbouring pixels of each plane.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    pixel_shuffle_kernel(T* y, const T* x, int64_t rows, int64_t H, int64_t W, int64_t factor) {
  const int64_t parts = W * factor / width, plane = H * W;
  for (int64_t v = first_item(); v < rows * parts; v += item_stride()) {
    // Row (n, c, h, i) of y.
    const int64_t row = v / parts, first = v % parts * width;
    const int64_t i = row % factor, h = row / factor % H, channel = row / factor / H;
    const T* in = x + (channel * factor + i) * factor * plane + h * W;
    int64_t w = first / factor, j = first % factor;
    Vector<T, width> out;
    for (int k = 0; k < width; ++k) {
      out.values[k] = in[j * plane + w];
      if (++j == factor) ++w, j = 0;
    }
    reinterpret_cast<Vector<T, width>*>(y)[v] = out;
  }
}

// A thread writes whole vectors of a row of dx, a grid apart. It reads every factor-th pixel of a
// row of dy; the threads for the other rows j of dx find the remaining pixels in the cache. So the
// accesses to dx are contiguous, which with beta 1 are reads, too.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    pixel_shuffle_backward_kernel(T* dx, const T* dy, int64_t rows, int64_t H, int64_t W,
                                  int64_t factor) {
  const int64_t parts = W / width;
  for (int64_t v = first_item(); v < rows * parts; v += item_stride()) {
    // Row (n, c, i, j, h) of dx.
    const int64_t row = v / parts, w = v % parts * width;
    const int64_t h = row % H, j = row / H % factor, group = row / H / factor;
    const int64_t i = group % factor, channel = group / factor;
    const T* in = dy + (((channel * H + h) * factor + i) * W + w) * factor + j;
    Vector<T, width> out;
    if constexpr (accumulate) out = reinterpret_cast<const Vector<T, width>*>(dx)[v];
    for (int k = 0; k < width; ++k)
      store(out.values[k], in[k * factor], std::bool_constant<accumulate>{});
    reinterpret_cast<Vector<T, width>*>(dx)[v] = out;
  }
}

}  // namespace

void pixel_shuffle(View y, View x, int64_t factor) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t rows = y.shape.numel(0, 3), H = x.shape[2], W = x.shape[3];
    with_width<T>(y.shape[3], {y.as<T>()}, [&](auto width) {
      enqueue(grid_over(y.numel() / width), pixel_shuffle_kernel<width.value, T>, y.as<T>(),
              x.as<const T>(), rows, H, W, factor);
    });
  });
}

void pixel_shuffle_backward(GradTarget dx, View dy, int64_t factor) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& x = dx.grad.shape;
    const int64_t rows = x.numel(0, 3), H = x[2], W = x[3];
    with_beta(dx.beta, [&](auto accumulate) {
      with_width<T>(W, {dx.grad.as<T>()}, [&](auto width) {
        enqueue(grid_over(dx.grad.numel() / width),
                pixel_shuffle_backward_kernel<width.value, accumulate.value, T>, dx.grad.as<T>(),
                dy.as<const T>(), rows, H, W, factor);
      });
    });
  });
}

}  // namespace accrue::cuda
