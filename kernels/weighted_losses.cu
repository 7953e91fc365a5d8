#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/detail/sample_losses.h"

namespace accrue::cuda {
namespace {

// In one block, whose threads have every 256th weight.
__global__ void __launch_bounds__(block_threads)
    sum_sample_weights_kernel(double* sum, SampleWeights s, int64_t N) {
  double own = 0;
  for (int64_t n = threadIdx.x; n < N; n += block_threads) own += s[n];
  own = block_sum<block_threads>(own);
  if (threadIdx.x == 0) *sum = own;
}

// The sum over a block's 16384 elements; its threads read neighbouring ones.
template <class T, class F>
__global__ void __launch_bounds__(block_threads)
    sample_loss_kernel(double* block_sums, const T* x, const T* t, SampleWeights s,
                       SampleShape shape, int64_t size, F f) {
  const int64_t begin = blockIdx.x * elements_per_block;
  const int64_t end = size - begin < elements_per_block ? size : begin + elements_per_block;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += block_threads) {
    const double own = s[shape.sample(i)];
    if (own != 0) sum += own * double(f.value(widen(x[i]), widen(t[i]), shape.class_of(i)));
  }
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

// One block adds up what the others have summed. Without a weight there are `samples`.
template <class W>
__global__ void __launch_bounds__(block_threads)
    mean_of_samples_kernel(W* loss, const double* sums, int64_t count, const double* weight,
                           int64_t samples, int64_t of_sample) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += sums[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0)
    *loss = static_cast<W>(mean_over(sum / double(of_sample), weight ? *weight : double(samples)));
}

// A thread has elements a grid apart. It reads each before it writes it: dx may be x.
template <class T, class F, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads, sizeof(Wide<T>) == 8 ? 2 : 4)
    sample_loss_backward_kernel(T* dx, float beta, const W* dloss, const T* x, const T* t,
                                SampleWeights s, const double* weight, SampleShape shape,
                                int64_t size, F f) {
  const double samples = double(size / shape.of_sample);
  const double factor =
      mean_over(double(*dloss) / double(shape.of_sample), weight ? *weight : samples);
  for (int64_t i = first_item(); i < size; i += item_stride()) {
    const double own = s[shape.sample(i)];
    const W slope = own != 0 ? f.slope(widen(x[i]), widen(t[i]), shape.class_of(i)) : W(0);
    dx[i] = blend(W(factor * own) * slope, beta, dx[i]);
  }
}

const double* weight_in(const View& weight) {
  return weight.data ? weight.as<const double>() : nullptr;
}

}  // namespace

void sum_sample_weights(View sum, View sample_weights) {
  enqueue({1}, sum_sample_weights_kernel, sum.as<double>(), SampleWeights(sample_weights),
          sample_weights.numel());
}

template <class F>
void sample_loss(View loss, View block_sums, View x, View target, View sample_weights, View weight,
                 F f) {
  const SampleShape shape(x.shape);
  double* sums = block_sums.as<double>();
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue({dim3(static_cast<unsigned>(block_sums.numel())), block_threads},
            sample_loss_kernel<T, F>, sums, x.as<const T>(), target.as<const T>(),
            SampleWeights(sample_weights), shape, x.numel(), f);
    enqueue({1}, mean_of_samples_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, block_sums.numel(),
            weight_in(weight), x.shape[0], shape.of_sample);
  });
}

template <class F>
void sample_loss_backward(GradTarget dx, View dloss, View x, View target, View sample_weights,
                          View weight, F f) {
  const SampleShape shape(x.shape);
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(x.numel()), sample_loss_backward_kernel<T, F>, dx.grad.as<T>(), dx.beta,
            dloss.as<const Wide<T>>(), x.as<const T>(), target.as<const T>(),
            SampleWeights(sample_weights), weight_in(weight), shape, x.numel(), f);
  });
}

template void sample_loss(View, View, View, View, View, View, ElementLoss<formula::SquaredError>);
template void sample_loss(View, View, View, View, View, View, ElementLoss<formula::AbsoluteError>);
template void sample_loss(View, View, View, View, View, View, ElementLoss<formula::SmoothError>);
template void sample_loss(View, View, View, View, View, View, PositiveLogistic);
template void sample_loss_backward(GradTarget, View, View, View, View, View,
                                   ElementLoss<formula::SquaredError>);
template void sample_loss_backward(GradTarget, View, View, View, View, View,
                                   ElementLoss<formula::AbsoluteError>);
template void sample_loss_backward(GradTarget, View, View, View, View, View,
                                   ElementLoss<formula::SmoothError>);
template void sample_loss_backward(GradTarget, View, View, View, View, View, PositiveLogistic);

}  // namespace accrue::cuda
