#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/rank_terms.h"
#include "kernels/step/combine_ranks.h"

namespace accrue::cuda {
namespace {

// A thread takes `width` neighbouring columns, 16 bytes of each row, and goes down the rows, so a
// warp reads each row contiguously. y may be the first row, because a thread writes its columns
// after it has read them.
template <int width, class T, class Add>
__global__ void __launch_bounds__(block_threads)
    combine_kernel(T* y, const T* x, int64_t R, int64_t n, Add add) {
  using Columns = Vector<T, width>;
  for (int64_t v = first_item(); v < n / width; v += item_stride()) {
    const auto row = [&](int64_t r) { return reinterpret_cast<const Columns*>(x + r * n)[v]; };
    const Columns first = row(0);
    double so_far[width];
    for (int k = 0; k < width; ++k) so_far[k] = double(first.values[k]);
    for (int64_t r = 1; r < R; ++r) {
      const Columns next = row(r);
      for (int k = 0; k < width; ++k)
        so_far[k] = add(so_far[k], double(first.values[k]), r, double(next.values[k]));
    }
    Columns out;
    for (int k = 0; k < width; ++k) out.values[k] = T(so_far[k]);
    reinterpret_cast<Columns*>(y)[v] = out;
  }
}

template <class Add>
void combine(View y, View x, Add add) {
  const int64_t R = x.shape[0], n = x.shape[1];
  if (n == 0) return;
  dispatch_wide(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T* in = x.as<const T>();
    with_width<T>(n, {out, in}, [&](auto width) {
      enqueue(grid_over(n / width), combine_kernel<width.value, T, Add>, out, in, R, n, add);
    });
  });
}

}  // namespace

void sum_ranks(View y, View x) { combine(y, x, SumOfRanks{}); }
void mean_ranks(View y, View x, View weights) {
  combine(y, x, MeanOfRanks{weights.as<const double>()});
}

}  // namespace accrue::cuda
