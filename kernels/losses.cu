#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"
#include "kernels/detail/losses_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// Large, so that what fits in one block is summed soon.
constexpr int sum_threads = 512;

// The sum of f over a block's 16384 elements: 32 to a thread, in vectors that lie a block's width
// apart so that a warp's accesses are contiguous. A grid of one block writes the loss itself, which
// saves a small model a launch; else mean_kernel adds up the blocks' sums.
template <int width, class T, class F, class W = Wide<T>>
__global__ void __launch_bounds__(sum_threads)
    loss_kernel(W* loss, double* block_sums, const T* x, const T* target, int64_t n, F f) {
  const int64_t begin = int64_t{blockIdx.x} * loss_block;
  const int64_t size = n - begin < loss_block ? n - begin : loss_block, vectors = size / width;
  x += begin;
  target += begin;
  W sum = 0;
  for (int64_t v = threadIdx.x; v < vectors; v += sum_threads) {
    const auto in = reinterpret_cast<const Vector<T, width>*>(x)[v];
    const auto t = reinterpret_cast<const Vector<T, width>*>(target)[v];
    for (int w = 0; w < width; ++w) sum += f(widen(in.values[w]), widen(t.values[w]));
  }
  for (int64_t i = vectors * width + threadIdx.x; i < size; i += sum_threads)
    sum += f(widen(x[i]), widen(target[i]));
  sum = block_sum<sum_threads>(sum);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) *loss = sum / static_cast<W>(n);
  else block_sums[blockIdx.x] = static_cast<double>(sum);
}

// dloss / n * dl/dx. dloss is read by every thread: the host does not know it.
template <class T, class F>
struct ScaledSlope {
  F f;
  const T* dloss;
  T n;
  HOST_DEVICE T operator()(T x, T t) const { return *dloss / n * f.slope_at(x, t); }
};

}  // namespace

template <class F>
void loss(View loss, View block_sums, View x, View target, F f) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t n = x.numel(), blocks = block_sums.numel();
    const T *in = x.as<T>(), *t = target.as<T>();
    double* sums = block_sums.as<double>();
    const Grid grid{dim3(static_cast<unsigned>(blocks)), sum_threads};
    with_width<T>(0, {in, t}, [&](auto width) {
      enqueue(grid, loss_kernel<width.value, T, F>, loss.as<Wide<T>>(), sums, in, t, n, f);
    });
    if (blocks > 1)
      enqueue({1}, mean_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, blocks, static_cast<double>(n));
  });
}

template <class F>
void loss_backward(GradTarget dx, View dloss, View x, View target, F f) {
  dispatch_floating(x.dtype, [&]<class T>() {
    elementwise(dx.grad.as<T>(), dx.beta, x.numel(),
                ScaledSlope<Wide<T>, F>{f, dloss.as<Wide<T>>(), static_cast<Wide<T>>(x.numel())},
                x.as<const T>(), target.as<const T>());
  });
}

template void loss(View, View, View, View, formula::SquaredError);
template void loss(View, View, View, View, formula::AbsoluteError);
template void loss(View, View, View, View, formula::LogisticLoss);
template void loss_backward(GradTarget, View, View, View, formula::SquaredError);
template void loss_backward(GradTarget, View, View, View, formula::AbsoluteError);
template void loss_backward(GradTarget, View, View, View, formula::LogisticLoss);

}  // namespace accrue::cuda
