#include <cmath>
#include <limits>

#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"
#include "kernels/detail/softmax_kernels.h"

namespace accrue::cuda {
namespace {

// Rows of at most so many entries take a warp each, longer ones a block.
constexpr int64_t entries_of_warp = 1024;

// The options as a kernel takes them.
template <class W>
struct Options {
  SoftmaxResult result;
  W scale;
  const int32_t* lengths;
  int64_t rows_of_sample, queries;

  explicit Options(const SoftmaxOptions& from)
      : result(from.result),
        scale(static_cast<W>(from.scale)),
        lengths(from.lengths.data ? from.lengths.as<const int32_t>() : nullptr),
        rows_of_sample(from.rows_of_sample),
        queries(from.queries) {}

  __device__ W value(W x, W largest, W share, W log_sum) const {
    const W shifted = scale * (x - largest);
    return result == SoftmaxResult::logarithms ? shifted - log_sum : std::exp(shifted) * share;
  }
  __device__ W in_sum(W dy, W y) const { return result == SoftmaxResult::logarithms ? dy : dy * y; }
  __device__ W gradient(W dy, W y, W sum) const {
    return scale * (result == SoftmaxResult::logarithms ? dy - std::exp(y) * sum : y * (dy - sum));
  }
};

template <int threads, class W>
__device__ W group_sum(W value) {
  if constexpr (threads == warp_threads) return warp_sum(value);
  else return block_sum<threads>(value);
}
template <int threads, class W>
__device__ W group_max(W value) {
  if constexpr (threads == warp_threads) return warp_max(value);
  else return block_max<threads>(value);
}

// `threads` neighbours, a warp or a block, have a row, whose entries they read side by side, and
// further rows a grid apart. A thread writes what it alone has read: y may be x.
template <int threads, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    softmax_rows_kernel(T* y, const T* x, int64_t rows, int64_t C, Options<W> options) {
  constexpr int groups = block_threads / threads;
  const int64_t lane = threadIdx.x % threads;
  for (int64_t row = int64_t{blockIdx.x} * groups + threadIdx.x / threads; row < rows;
       row += int64_t{gridDim.x} * groups) {
    const T* const in = x + row * C;
    T* const out = y + row * C;
    const int64_t seen =
        entries_seen(options.lengths, options.rows_of_sample, options.queries, row, C);
    W largest = -std::numeric_limits<W>::infinity();
    for (int64_t c = lane; c < seen; c += threads) {
      const W entry = in[c];
      largest = entry > largest ? entry : largest;
    }
    largest = group_max<threads>(largest);
    RunningSum<W> terms;
    for (int64_t c = lane; c < seen; c += threads)
      terms.add(std::exp(options.scale * (in[c] - largest)));
    const W sum = group_sum<threads>(terms.total()), share = 1 / sum, log_sum = std::log(sum);
    const W unseen = seen == 0 ? std::numeric_limits<W>::quiet_NaN() : W(0);
    for (int64_t c = lane; c < C; c += threads)
      out[c] = T(c < seen ? options.value(in[c], largest, share, log_sum) : unseen);
  }
}

// The same for gradients: dx may be dy.
template <int threads, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    softmax_rows_backward_kernel(T* dx, const T* dy, const T* y, int64_t rows, int64_t C,
                                 Options<W> options) {
  constexpr int groups = block_threads / threads;
  const int64_t lane = threadIdx.x % threads;
  for (int64_t row = int64_t{blockIdx.x} * groups + threadIdx.x / threads; row < rows;
       row += int64_t{gridDim.x} * groups) {
    const T *const d = dy + row * C, *const v = y + row * C;
    RunningSum<W> terms;
    for (int64_t c = lane; c < C; c += threads) terms.add(options.in_sum(d[c], v[c]));
    const W sum = group_sum<threads>(terms.total());
    for (int64_t c = lane; c < C; c += threads)
      store(dx[row * C + c], options.gradient(d[c], v[c], sum), std::bool_constant<accumulate>{});
  }
}

// A thread has columns, a grid apart: neighbours read neighbouring elements.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    softmax_columns_kernel(T* y, const T* x, Dimension d, Options<W> options) {
  for (int64_t i = first_item(); i < d.outer * d.inner; i += item_stride()) {
    const int64_t first = i / d.inner * d.size * d.inner + i % d.inner;
    W largest = -std::numeric_limits<W>::infinity();
    for (int64_t c = 0; c < d.size; ++c) {
      const W entry = x[first + c * d.inner];
      largest = entry > largest ? entry : largest;
    }
    RunningSum<W> terms;
    for (int64_t c = 0; c < d.size; ++c)
      terms.add(std::exp(options.scale * (x[first + c * d.inner] - largest)));
    const W sum = terms.total(), share = 1 / sum, log_sum = std::log(sum);
    for (int64_t c = 0; c < d.size; ++c) {
      const int64_t at = first + c * d.inner;
      y[at] = T(options.value(x[at], largest, share, log_sum));
    }
  }
}

template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    softmax_columns_backward_kernel(T* dx, const T* dy, const T* y, Dimension d,
                                    Options<W> options) {
  for (int64_t i = first_item(); i < d.outer * d.inner; i += item_stride()) {
    const int64_t first = i / d.inner * d.size * d.inner + i % d.inner;
    RunningSum<W> terms;
    for (int64_t c = 0; c < d.size; ++c) {
      const int64_t at = first + c * d.inner;
      terms.add(options.in_sum(dy[at], y[at]));
    }
    const W sum = terms.total();
    for (int64_t c = 0; c < d.size; ++c) {
      const int64_t at = first + c * d.inner;
      store(dx[at], options.gradient(dy[at], y[at], sum), std::bool_constant<accumulate>{});
    }
  }
}

// Calls body(threads, grid) with the threads of a row.
template <class Body>
void with_row_threads(const Dimension& d, Body&& body) {
  constexpr int64_t most_blocks = 1 << 20;
  const auto grid = [&](int threads) {
    const int64_t blocks = ceil_div<int64_t>(d.outer, block_threads / threads);
    return Grid{dim3(static_cast<unsigned>(std::min(blocks, most_blocks)))};
  };
  if (d.outer == 0 || d.size == 0) return;
  if (d.size <= entries_of_warp) body(std::integral_constant<int, warp_threads>{}, grid(32));
  else body(std::integral_constant<int, block_threads>{}, grid(block_threads));
}

}  // namespace

void softmax(View y, View x, Dimension d, SoftmaxOptions from) {
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const Options<W> options(from);
        if (d.inner > 1)
          return enqueue(grid_over(d.outer * d.inner), softmax_columns_kernel<T>, y.as<T>(),
                         x.as<const T>(), d, options);
        with_row_threads(d, [&](auto threads, const Grid& grid) {
          enqueue(grid, softmax_rows_kernel<threads.value, T>, y.as<T>(), x.as<const T>(), d.outer,
                  d.size, options);
        });
      });
}

void softmax_backward(GradTarget dx, View dy, View y, Dimension d, SoftmaxOptions from) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const Options<W> options(from);
        with_beta(dx.beta, [&](auto accumulate) {
          if (d.inner > 1)
            return enqueue(grid_over(d.outer * d.inner),
                           softmax_columns_backward_kernel<accumulate.value, T>, dx.grad.as<T>(),
                           dy.as<const T>(), y.as<const T>(), d, options);
          with_row_threads(d, [&](auto threads, const Grid& grid) {
            enqueue(grid, softmax_rows_backward_kernel<threads.value, accumulate.value, T>,
                    dx.grad.as<T>(), dy.as<const T>(), y.as<const T>(), d.outer, d.size, options);
          });
        });
      });
}

}  // namespace accrue::cuda
