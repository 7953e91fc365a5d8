#include "accumulate/ladder/tensor_ops.h"
#include "core/cuda.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::ladder::cuda {
namespace {

using namespace accrue::cuda;

// A thread processes one 16-byte vector at a time, with the grid as its stride. All threads that
// find something write the same value to the same place, so their order does not matter.
template <int width>
__global__ void __launch_bounds__(block_threads)
    find_nonfinite_kernel(float* found, const float* g, int64_t n) {
  const auto is_nonfinite = [](float x) { return x - x != 0; };
  const int64_t vectors = n / width;
  bool any = false;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const auto values = load_vector<width>(g, v);
    for (const float x : values.values) any |= is_nonfinite(x);
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    any |= is_nonfinite(g[i]);
  if (any) *found = 1;
}

}  // namespace

template <class F, class... Inputs>
void apply(View y, F f, Inputs... inputs) {
  elementwise(y.as<float>(), 0, y.numel(), f, inputs.template as<const float>()...);
}

template void apply(View, Scale, View);
template void apply(View, AddConstant, View);
template void apply(View, Root, View);
template void apply(View, Lerp, View, View);
template void apply(View, AddSquare, View, View);
template void apply(View, SubtractQuotient, View, View, View);

void find_nonfinite(View found, View g) {
  const float* in = g.as<const float>();
  const bool aligned = is_aligned(in, 16);
  enqueue(grid_over(aligned ? g.numel() / 4 : g.numel()),
          aligned ? find_nonfinite_kernel<4> : find_nonfinite_kernel<1>, found.as<float>(), in,
          g.numel());
}

void copy(View y, View x) {
  copy_on_device(y.data, x.data, static_cast<size_t>(x.numel()) * sizeof(float));
}

}  // namespace accrue::ladder::cuda
