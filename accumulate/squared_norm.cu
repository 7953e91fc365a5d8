#include "accumulate/squared_norm.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// One block for each partial sum. Its elements are those that a grid-stride loop would give it.
// They do not depend on the device, so the order of every sum is fixed. Squares are double: they
// cannot overflow, and a kernel limited by memory has time for them.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    squared_norm_kernel(double* partials, float beta, const T* g, int64_t n) {
  const int64_t vectors = n / width;
  // With few parameters, most blocks have no elements.
  if (int64_t{blockIdx.x} * block_threads >= (vectors > 0 ? vectors : n)) {
    if (threadIdx.x == 0) partials[blockIdx.x] = blend(0.0, beta, partials[blockIdx.x]);
    return;
  }
  double sum = 0;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const auto in = reinterpret_cast<const Vector<T, width>*>(g)[v];
    for (int w = 0; w < width; ++w) sum += double(in.values[w]) * double(in.values[w]);
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    sum += double(g[i]) * double(g[i]);
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = blend(sum, beta, partials[blockIdx.x]);
}

}  // namespace

void squared_norm(GradTarget partials, View g) {
  const Grid grid{dim3(norm_partials)};
  dispatch_floating(g.dtype, [&]<class T>() {
    const T* in = g.as<const T>();
    with_width<T>(0, {in}, [&](auto width) {
      enqueue(grid, squared_norm_kernel<width.value, T>, partials.grad.as<double>(), partials.beta,
              in, g.numel());
    });
  });
}

}  // namespace accrue::cuda
