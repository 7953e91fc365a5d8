#include "accumulate/accumulate_kernels.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// sum += scale * g. A thread processes `width` consecutive elements at a time; for float32 that is
// one 16-byte load of sum, one of g and one store. The kernel is limited by memory, so it requests
// large pieces. With the grid-stride loop, the device reads one contiguous window of each array at
// a time.
template <int width, class T, class G>
__global__ void __launch_bounds__(block_threads)
    accumulate_kernel(T* sum, const G* g, T scale, int64_t n, const double* enabled) {
  if (enabled && *enabled == 0) return;
  using Sum = Vector<T, width>;
  using Gradient = Vector<G, width>;
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const Gradient in = reinterpret_cast<const Gradient*>(g)[v];
    Sum out = reinterpret_cast<const Sum*>(sum)[v];
    for (int w = 0; w < width; ++w) out.values[w] += scale * in.values[w];
    reinterpret_cast<Sum*>(sum)[v] = out;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    sum[i] += scale * g[i];
}

template <class T, class G>
void accumulate(T* sum, const G* g, T scale, int64_t n, const double* enabled) {
  if (n == 0) return;
  with_width<T>(0, {sum, g}, [&](auto width) {
    enqueue(grid_over(n / width), accumulate_kernel<width.value, T, G>, sum, g, scale, n, enabled);
  });
}

}  // namespace

void accumulate(View sum, View g, double scale, View enabled) {
  dispatch_sum(sum, g, [&]<class T, class G>() {
    accumulate(sum.as<T>(), g.as<const G>(), static_cast<T>(scale), g.numel(),
               enabled.data ? enabled.as<const double>() : nullptr);
  });
}

}  // namespace accrue::cuda
