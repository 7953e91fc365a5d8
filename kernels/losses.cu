#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// Large, so that a loss that fits in one block is summed fast.
constexpr int sum_threads = 512;

// Sums f over a block's 16384 elements. A thread takes 32, in vectors that lie a block's width
// apart, so a warp's accesses are contiguous. A grid of one block writes the loss itself, which
// saves a small model a launch. Otherwise mean_kernel adds up the blocks' sums.
template <int width, class W, class F, class... Inputs>
__global__ void __launch_bounds__(sum_threads)
    loss_kernel(W* loss, double* block_sums, int64_t n, F f, const Inputs*... inputs) {
  const int64_t begin = int64_t{blockIdx.x} * elements_per_block;
  const int64_t size = n - begin < elements_per_block ? n - begin : elements_per_block,
                vectors = size / width;
  ((inputs += begin), ...);
  W sum = 0;
  for (int64_t v = threadIdx.x; v < vectors; v += sum_threads)
    [&](auto... in) {
      for (int w = 0; w < width; ++w) sum += f(widen(in.values[w])...);
    }(load_vector<width>(inputs, v)...);
  for (int64_t i = vectors * width + threadIdx.x; i < size; i += sum_threads)
    sum += f(widen(inputs[i])...);
  sum = block_sum<sum_threads>(sum);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) *loss = sum / static_cast<W>(n);
  else block_sums[blockIdx.x] = static_cast<double>(sum);
}

// dloss / n * dl/dx. Every thread reads dloss, because the host does not know it.
template <class T, class F>
struct ScaledSlope {
  F f;
  const T* dloss;
  T n;
  template <class... Targets>
  HOST_DEVICE T operator()(T x, Targets... t) const {
    return *dloss / n * f.slope_at(x, t...);
  }
};

}  // namespace

template <class F, class... Targets>
void loss(View loss, View block_sums, View x, F f, Targets... target) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t n = x.numel(), blocks = block_sums.numel();
    double* sums = block_sums.as<double>();
    const Grid grid{dim3(static_cast<unsigned>(blocks)), sum_threads};
    const auto sum = [&](const auto*... inputs) {
      with_width<T>(0, {inputs...}, [&](auto width) {
        enqueue(grid,
                loss_kernel<width.value, Wide<T>, F, std::remove_cvref_t<decltype(*inputs)>...>,
                loss.as<Wide<T>>(), sums, n, f, inputs...);
      });
    };
    sum(x.as<const T>(), target.template as<const T>()...);
    if (blocks > 1)
      enqueue({1}, mean_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, blocks, static_cast<double>(n));
  });
}

template <class F, class... Targets>
void loss_backward(GradTarget dx, View dloss, View x, F f, Targets... target) {
  dispatch_floating(x.dtype, [&]<class T>() {
    elementwise(dx.grad.as<T>(), dx.beta, x.numel(),
                ScaledSlope<Wide<T>, F>{f, dloss.as<Wide<T>>(), static_cast<Wide<T>>(x.numel())},
                x.as<const T>(), target.template as<const T>()...);
  });
}

template void loss(View, View, View, formula::SquaredError, View);
template void loss(View, View, View, formula::AbsoluteError, View);
template void loss(View, View, View, formula::LogisticLoss, View);
template void loss(View, View, View, formula::ConstantLogisticLoss);
template void loss_backward(GradTarget, View, View, formula::SquaredError, View);
template void loss_backward(GradTarget, View, View, formula::AbsoluteError, View);
template void loss_backward(GradTarget, View, View, formula::LogisticLoss, View);
template void loss_backward(GradTarget, View, View, formula::ConstantLogisticLoss);

}  // namespace accrue::cuda
