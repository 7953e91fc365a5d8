#include <limits>

#include "kernels/detail/class_weights.h"
#include "kernels/detail/counted.cuh"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/pixel_softmax.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// A block handles `pixels_of_block` consecutive pixels and adds its threads' sums in a tree. A grid
// of one block writes the mean itself; otherwise mean_of_counted_kernel adds up the blocks' sums.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    pixel_cross_entropy_kernel(W* loss, double* block_sums, const T* x, const int32_t* labels,
                               ClassWeights weights, Counted counted, int64_t pixels, int64_t C,
                               int64_t P, int64_t pixels_of_block) {
  const int64_t begin = blockIdx.x * pixels_of_block;
  const int64_t end = pixels - begin < pixels_of_block ? pixels : begin + pixels_of_block;
  RunningSum<W> sum;
  for (int64_t i = begin + threadIdx.x; i < end; i += block_threads) {
    const int32_t label = labels[i];
    if (counted.leaves_out(label)) continue;
    const T* pixel = x + i / P * C * P + i % P;
    const bool in_range = 0 <= label && label < C;
    const auto softmax = pixel_softmax(pixel, label, C, P);
    sum.add(in_range ? weights.in<W>(label) * softmax.loss(widen(pixel[label * P]))
                     : std::numeric_limits<W>::quiet_NaN());
  }
  const W total = block_sum<block_threads>(sum.total());
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) *loss = counted.mean_of(total);
  else block_sums[blockIdx.x] = static_cast<double>(total);
}

// The softmax is computed again from x, which is cheaper than keeping it. dx may be x: the thread
// that read a pixel writes it after the pixel's sums are complete.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    pixel_cross_entropy_backward_kernel(T* dx, Seed<W> seed, const T* x, const int32_t* labels,
                                        ClassWeights weights, Counted counted, int64_t pixels,
                                        int64_t C, int64_t P) {
  if (first_item() == 0) seed.add_loss();
  const W scale = counted.mean_of(seed.dloss());
  for (int64_t i = first_item(); i < pixels; i += item_stride()) {
    const int32_t label = labels[i];
    const int64_t at = i / P * C * P + i % P;
    const auto softmax = pixel_softmax(x + at, label, C, P);
    const bool in_range = 0 <= label && label < C;
    const W factor = counted.leaves_out(label) ? 0
                     : in_range                ? scale * weights.in<W>(label)
                                               : std::numeric_limits<W>::quiet_NaN();
    for (int64_t c = 0; c < C; ++c)
      store(dx[at + c * P], factor * (softmax.probability(widen(x[at + c * P])) - W(c == label)),
            std::bool_constant<accumulate>{});
  }
}

}  // namespace

void pixel_cross_entropy(View loss, View block_sums, View x, View labels, ClassWeights weights,
                         const Counted& counted) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  const int64_t blocks = block_sums.numel();
  dispatch_floating(x.dtype, [&]<class T>() {
    double* sums = block_sums.as<double>();
    enqueue({dim3(static_cast<unsigned>(blocks)), block_threads}, pixel_cross_entropy_kernel<T>,
            loss.as<Wide<T>>(), sums, x.as<const T>(), labels.as<const int32_t>(), weights, counted,
            pixels, C, P, pixels_per_block(C));
    if (blocks > 1)
      enqueue({1}, mean_of_counted_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, blocks, counted);
  });
}

void pixel_cross_entropy_backward(GradTarget dx, const LossSeed& seed, View x, View labels,
                                  ClassWeights weights, const Counted& counted) {
  const int64_t C = x.shape[1], P = x.shape[2] * x.shape[3], pixels = labels.numel();
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(pixels), pixel_cross_entropy_backward_kernel<accumulate.value, T>,
              dx.grad.as<T>(), Seed<Wide<T>>(seed), x.as<const T>(), labels.as<const int32_t>(),
              weights, counted, pixels, C, P);
    });
  });
}

}  // namespace accrue::cuda
