#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/accumulate.h"
#include "kernels/elementwise.cuh"
#include "kernels/reduce.cuh"

namespace accrue::cuda {
namespace {

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(Half x) {
  __half_raw raw;
  raw.x = x.bits;
  return __half2float(raw);
}
// A bfloat16 is the upper half of a float.
__device__ inline float widen(BFloat16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }

// sum += scale * g. A thread has `width` consecutive elements at a time, which for float32 is one
// 16-byte load of sum, one of g and one store: the kernel does nothing but wait for memory, and
// asks for it in the largest pieces there are. The grid is a grid-stride loop's, so that at any
// moment the device reads one contiguous window of both arrays.
template <int width, class T, class G>
__global__ void __launch_bounds__(block_threads)
    accumulate_kernel(T* sum, const G* g, T scale, int64_t n) {
  using Sum = Vector<T, width>;
  using Gradient = Vector<G, width>;
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const Gradient in = reinterpret_cast<const Gradient*>(g)[v];
    Sum out = reinterpret_cast<const Sum*>(sum)[v];
    for (int w = 0; w < width; ++w) out.values[w] += scale * widen(in.values[w]);
    reinterpret_cast<Sum*>(sum)[v] = out;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    sum[i] += scale * widen(g[i]);
}

template <class T, class G>
void accumulate(T* sum, const G* g, T scale, int64_t n) {
  if (n == 0) return;
  constexpr int width = 16 / sizeof(T);
  if (is_aligned(sum, 16) && is_aligned(g, sizeof(G) * width))
    enqueue(grid_over(n / width), accumulate_kernel<width, T, G>, sum, g, scale, n);
  else enqueue(grid_over(n), accumulate_kernel<1, T, G>, sum, g, scale, n);
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

void accumulate(View sum, View g, double scale) {
  const int64_t n = g.numel();
  if (g.dtype == DType::f16)
    accumulate(sum.as<float>(), g.as<const Half>(), static_cast<float>(scale), n);
  else if (g.dtype == DType::bf16)
    accumulate(sum.as<float>(), g.as<const BFloat16>(), static_cast<float>(scale), n);
  else
    dispatch_floating(g.dtype, [&]<class T>() {
      accumulate(sum.as<T>(), g.as<const T>(), static_cast<T>(scale), n);
    });
}

void squared_norm(GradTarget partials, View g) {
  const Grid grid{dim3(norm_partials)};
  dispatch_floating(g.dtype, [&]<class T>() {
    constexpr int width = 16 / sizeof(T);
    const T* in = g.as<const T>();
    if (is_aligned(in, 16))
      enqueue(grid, squared_norm_kernel<width, T>, partials.grad.as<double>(), partials.beta, in,
              g.numel());
    else
      enqueue(grid, squared_norm_kernel<1, T>, partials.grad.as<double>(), partials.beta, in,
              g.numel());
  });
}

}  // namespace accrue::cuda
