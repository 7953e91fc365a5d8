#include "kernels/detail/copy_columns.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// Each thread copies whole vectors, a grid apart. Rows follow one another without padding: narrow
// rows leave no thread idle, and neighbouring threads still touch neighbouring vectors.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    copy_columns_kernel(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                        int64_t columns) {
  using Part = Vector<T, width>;
  const int64_t parts = columns / width;
  for (int64_t i = first_item(); i < rows * parts; i += item_stride()) {
    const int64_t r = i / parts, c = i % parts * width;
    const Part in = *reinterpret_cast<const Part*>(from + r * from_stride + c);
    Part& target = *reinterpret_cast<Part*>(to + r * to_stride + c);
    Part out;
    if constexpr (accumulate) out = target;
    for (int w = 0; w < width; ++w)
      store(out.values[w], in.values[w], std::bool_constant<accumulate>{});
    target = out;
  }
}

}  // namespace

void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width) {
  dispatch_floating(from.dtype, [&]<class T>() {
    T* out = to.grad.as<T>() + to_columns.begin;
    const T* in = from.as<T>() + from_columns.begin;
    constexpr int most = 16 / sizeof(T);
    const bool whole_vectors = is_aligned(out, 16) && is_aligned(in, 16) && width % most == 0 &&
                               to_columns.stride % most == 0 && from_columns.stride % most == 0;
    with_beta(to.beta, [&](auto accumulate) {
      const auto copy = [&](auto vector) {
        enqueue(grid_over(rows * width / vector), copy_columns_kernel<vector, accumulate.value, T>,
                out, to_columns.stride, in, from_columns.stride, rows, width);
      };
      if (whole_vectors) copy(std::integral_constant<int, most>{});
      else copy(std::integral_constant<int, 1>{});
    });
  });
}

}  // namespace accrue::cuda
