#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/resize_kernels.h"

namespace accrue::cuda {
namespace {

// A thread makes rows of the table, a grid apart.
template <class W>
__global__ void __launch_bounds__(block_threads)
    make_taps_kernel(int32_t* begin, int32_t* index, W* weight, TappedAxis axis, TapsOf of) {
  const int64_t n = of == TapsOf::outputs ? axis.out : axis.in;
  for (int64_t row = first_item(); row < n; row += item_stride()) {
    if (of == TapsOf::outputs) axis.write_taps(row, begin, index, weight);
    else axis.write_readers(row, begin, index, weight);
  }
}

template <class W>
struct TapPointers {
  explicit TapPointers(const TapTable& table)
      : begin(table.begin.as<const int32_t>()),
        index(table.index.as<const int32_t>()),
        weight(table.weight.as<const W>()) {}
  const int32_t *begin, *index;
  const W* weight;
};

// A thread owns pixels of y, a grid apart, and sums what each reads: no atomics, and neighbours in
// a warp read neighbours in x's rows. The tables stay in the cache.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    tap_kernel(T* y, const T* x, int64_t pixels, int64_t H, int64_t W, int64_t H0, int64_t W0,
               TapPointers<Wide<T>> rows, TapPointers<Wide<T>> columns) {
  for (int64_t pixel = first_item(); pixel < pixels; pixel += item_stride()) {
    const int64_t w = pixel % W, h = pixel / W % H;
    const T* const in = x + pixel / W / H * H0 * W0;
    Wide<T> sum = 0;
    for (int64_t k = columns.begin[w]; k < columns.begin[w + 1]; ++k) {
      const T* const column = in + columns.index[k];
      Wide<T> of_column = 0;
      for (int64_t i = rows.begin[h]; i < rows.begin[h + 1]; ++i)
        of_column += rows.weight[i] * column[rows.index[i] * W0];
      sum += columns.weight[k] * of_column;
    }
    store(y[pixel], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void make_taps(TapTable table, TapsOf of) {
  dispatch_wide(table.weight.dtype, [&]<class W>() {
    const int64_t n = of == TapsOf::outputs ? table.axis.out : table.axis.in;
    enqueue(grid_over(n), make_taps_kernel<W>, table.begin.as<int32_t>(), table.index.as<int32_t>(),
            table.weight.as<W>(), table.axis, of);
  });
}

void resize(GradTarget y, View x, TapTable rows, TapTable columns) {
  const Shape &to = y.grad.shape, &from = x.shape;
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(y.beta, [&](auto accumulate) {
      enqueue(grid_over(y.grad.numel()), tap_kernel<accumulate.value, T>, y.grad.as<T>(),
              x.as<const T>(), y.grad.numel(), to[2], to[3], from[2], from[3],
              TapPointers<Wide<T>>(rows), TapPointers<Wide<T>>(columns));
    });
  });
}

}  // namespace accrue::cuda
