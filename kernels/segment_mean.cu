#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// A thread computes elements of y, a grid apart, by adding up a column of a segment. A warp reads
// contiguous parts of rows.
template <class T>
__global__ void __launch_bounds__(block_threads)
    segment_mean_kernel(Wide<T>* y, const T* x, const int32_t* lengths, int64_t n, int64_t length,
                        int64_t E, int64_t P) {
  for (int64_t i = first_item(); i < n; i += item_stride()) {
    const int64_t segment = i / E, row = segment / P;
    int64_t begin = 0;
    for (int64_t q = row * P; q < segment; ++q) begin += lengths[q];
    const int64_t L = lengths[segment], end = begin + L < length ? begin + L : length;
    double sum = 0;
    // An invalid length may have made the beginning negative.
    for (int64_t t = begin < 0 ? 0 : begin; t < end; ++t)
      sum += double(widen(x[(row * length + t) * E + i % E]));
    y[i] = static_cast<Wide<T>>(L > 0 ? sum / double(L) : nan(""));
  }
}

// A thread writes elements of dx, a grid apart, and searches for the segment of each: a row has few
// segments.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    segment_mean_backward_kernel(T* dx, const Wide<T>* dy, const int32_t* lengths, int64_t n,
                                 int64_t length, int64_t E, int64_t P) {
  for (int64_t i = first_item(); i < n; i += item_stride()) {
    const int64_t row = i / E / length, t = i / E % length;
    int64_t p = 0, end = 0;
    while (p < P && (end += lengths[row * P + p]) <= t) ++p;
    Wide<T> value = 0;
    if (p < P) value = dy[(row * P + p) * E + i % E] * (Wide<T>(1) / Wide<T>(lengths[row * P + p]));
    store(dx[i], value, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void segment_mean(View y, View x, View lengths) {
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(y.numel()), segment_mean_kernel<T>, y.as<Wide<T>>(), x.as<const T>(),
            lengths.as<const int32_t>(), y.numel(), x.shape[1], x.shape[2], y.shape[1]);
  });
}

void segment_mean_backward(GradTarget dx, View dy, View lengths) {
  const Shape& x = dx.grad.shape;
  dispatch_floating(dx.grad.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(x.numel()), segment_mean_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), dy.as<const Wide<T>>(), lengths.as<const int32_t>(), x.numel(), x[1],
              x[2], dy.shape[1]);
    });
  });
}

}  // namespace accrue::cuda
