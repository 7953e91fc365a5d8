#include "kernels/detail/accumulate_kernels.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"
#include "kernels/step/window_state.h"

namespace accrue::cuda {
namespace {

// sum += scale * g. A thread has `width` consecutive elements at a time, for float32 one 16-byte
// load of sum, one of g and one store: the kernel only waits for memory, and asks for it in large
// pieces. By the grid-stride loop the device reads one contiguous window of each array at a time.
template <int width, class T, class G>
__global__ void __launch_bounds__(block_threads)
    accumulate_kernel(T* sum, const G* g, T scale, int64_t n, const int64_t* keep) {
  if (keep && *keep == 0) return;
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
void accumulate(T* sum, const G* g, T scale, int64_t n, const int64_t* keep) {
  if (n == 0) return;
  with_width<T>(0, {sum, g}, [&](auto width) {
    enqueue(grid_over(n / width), accumulate_kernel<width.value, T, G>, sum, g, scale, n, keep);
  });
}

// A block for each place. Its elements are those that a grid-stride loop would give it: which ones
// they are does not depend on the device, hence neither does the order of any sum. Squares are
// double: they cannot overflow, and a kernel that waits for memory has the time.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    squared_norm_kernel(double* partials, float beta, const T* g, int64_t n) {
  const int64_t vectors = n / width;
  // Few parameters leave most blocks without any.
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

void accumulate(View sum, View g, double scale, View state) {
  const int64_t* keep = state.data ? &window_state(state)->kept : nullptr;
  dispatch_sum(sum, g, [&]<class T, class G>() {
    accumulate(sum.as<T>(), g.as<const G>(), static_cast<T>(scale), g.numel(), keep);
  });
}

void squared_norm(GradTarget partials, View g) {
  const Grid grid{dim3(norm_partials)};
  dispatch_wide(g.dtype, [&]<class T>() {
    const T* in = g.as<const T>();
    with_width<T>(0, {in}, [&](auto width) {
      enqueue(grid, squared_norm_kernel<width.value, T>, partials.grad.as<double>(), partials.beta,
              in, g.numel());
    });
  });
}

}  // namespace accrue::cuda
