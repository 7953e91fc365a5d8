#include <limits>

#include "core/ceil_div.h"
#include "kernels/detail/dice_loss_kernels.h"
#include "kernels/detail/pixel_softmax.cuh"
#include "kernels/detail/reduce.cuh"
#include "kernels/pointwise.h"

namespace accrue::cuda {
namespace {

// These read the probability and the mask of class k at a pixel, whose logits are P elements apart.
// A label out of range gives NaN, because a kernel cannot throw. A pixel that is not judged gives 0
// for both.
template <class T>
struct PlaneMasks {
  const T* masks;
  template <class W>
  __device__ void read(W& p, W& t, const T* x, int64_t n, int64_t pixel, int64_t k, int64_t K,
                       int64_t P) const {
    p = formula::Sigmoid{}(widen(x[k * P]));
    t = widen(masks[(n * K + k) * P + pixel]);
  }
};
template <class T>
struct ClassMasks {
  const int32_t* labels;
  Counted counted;
  template <class W>
  __device__ void read(W& p, W& t, const T* x, int64_t n, int64_t pixel, int64_t k, int64_t K,
                       int64_t P) const {
    const int32_t label = labels[n * P + pixel];
    p = pixel_softmax(x, label, K, P).probability(widen(x[k * P]));
    if (label < 0 || label >= K)
      p = counted.leaves_out(label) ? 0 : std::numeric_limits<W>::quiet_NaN();
    t = W(label == k);
  }
};

// A block sums dice_block pixels of a plane of a sample; each thread takes every 256th pixel. The
// softmax is computed again for each plane, with the logits from the cache.
template <class T, class Masks, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    dice_sums_kernel(double* block_sums, const T* x, Masks masks, int64_t K, int64_t P,
                     int64_t blocks) {
  const int64_t k = blockIdx.x % K, b = blockIdx.x / K % blocks, n = blockIdx.x / K / blocks;
  const int64_t begin = b * dice_block, end = P - begin < dice_block ? P : begin + dice_block;
  W both = 0, found = 0, wanted = 0;
  for (int64_t pixel = begin + threadIdx.x; pixel < end; pixel += block_threads) {
    W p, t;
    masks.read(p, t, x + n * K * P + pixel, n, pixel, k, K, P);
    both += p * t;
    found += p;
    wanted += t;
  }
  both = block_sum<block_threads>(both);
  found = block_sum<block_threads>(found);
  wanted = block_sum<block_threads>(wanted);
  if (threadIdx.x != 0) return;
  double* const to = block_sums + ((n * blocks + b) * K + k) * 3;
  to[0] = static_cast<double>(both);
  to[1] = static_cast<double>(found);
  to[2] = static_cast<double>(wanted);
}

// One block: each thread adds up the block sums of every 256th plane, in order. After a barrier it
// adds up the losses of its planes, each weighted by the judged part of its sample, which depends
// on other threads' planes.
template <class W>
__global__ void __launch_bounds__(block_threads)
    dice_loss_kernel(W* loss, double* sums, const double* block_sums, ClassWeights weights,
                     Counted counted, int64_t planes, int64_t K, int64_t P, int64_t blocks) {
  for (int64_t plane = threadIdx.x; plane < planes; plane += block_threads) {
    const int64_t n = plane / K, k = plane % K;
    DiceSums of_plane{0, 0, 0};
    for (int64_t b = 0; b < blocks; ++b) {
      const double* const from = block_sums + ((n * blocks + b) * K + k) * 3;
      of_plane.both += from[0];
      of_plane.found += from[1];
      of_plane.wanted += from[2];
    }
    sums[3 * plane] = of_plane.both;
    sums[3 * plane + 1] = of_plane.found;
    sums[3 * plane + 2] = of_plane.wanted;
  }
  __syncthreads();
  double sum = 0;
  for (int64_t plane = threadIdx.x; plane < planes; plane += block_threads)
    sum += judged_part(sums, plane / K, K, P, counted) * double(weights.in<W>(plane % K)) *
           dice_sums(sums, plane).loss();
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) *loss = static_cast<W>(mean_of_planes(sum, K, counted));
}

// In dice_classes_backward_kernel a thread handles a pixel with all its planes. dx may be x: each
// logit is read for the last time before its slope is written, and the softmax's maximum and sum
// are complete before the first write.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    dice_planes_backward_kernel(T* dx, const W* dloss, const double* sums, const T* x,
                                const T* masks, ClassWeights weights, int64_t N, int64_t K,
                                int64_t P) {
  const double scale = double(*dloss) / double(N * K);
  for (int64_t i = first_item(); i < N * K * P; i += item_stride()) {
    const int64_t plane = i / P;
    const DiceSums of_plane = dice_sums(sums, plane);
    const double factor = scale * double(weights.in<W>(plane % K));
    const W p = formula::Sigmoid{}(widen(x[i]));
    const W dp =
        W(factor * of_plane.at_zero()) + widen(masks[i]) * W(factor * of_plane.by_target());
    store(dx[i], p * (1 - p) * dp, std::bool_constant<accumulate>{});
  }
}
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads, sizeof(W) == 8 ? 2 : 4)
    dice_classes_backward_kernel(T* dx, const W* dloss, const double* sums, const T* x,
                                 const int32_t* labels, ClassWeights weights, Counted counted,
                                 int64_t N, int64_t K, int64_t P) {
  for (int64_t i = first_item(); i < N * P; i += item_stride()) {
    const int64_t n = i / P, at = n * K * P + i % P;
    const int32_t label = labels[i];
    const auto softmax = pixel_softmax(x + at, label, K, P);
    // Computed within the loop, because holding it in a register for the whole loop is too
    // expensive.
    const double part = counted.leaves_out(label) ? 0 : judged_part(sums, n, K, P, counted);
    const double of_sample = mean_of_planes(double(*dloss) * part, K, counted);
    const auto slope = [&](int64_t k) {
      const DiceSums of_plane = dice_sums(sums, n * K + k);
      const double factor = of_sample * double(weights.in<W>(k));
      return W(factor * of_plane.at_zero()) + W(k == label) * W(factor * of_plane.by_target());
    };
    W average = 0;
    for (int64_t k = 0; k < K; ++k) average += softmax.probability(widen(x[at + k * P])) * slope(k);
    for (int64_t k = 0; k < K; ++k)
      store(dx[at + k * P], softmax.probability(widen(x[at + k * P])) * (slope(k) - average),
            std::bool_constant<accumulate>{});
  }
}

}  // namespace

void dice_loss(View loss, View sums, View block_sums, View x, View masks, ClassWeights weights,
               const Counted& counted) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  const int64_t blocks = block_sums.shape[1];
  dispatch_floating(x.dtype, [&]<class T>() {
    const Grid grid{dim3(static_cast<unsigned>(N * K * blocks))};
    double* const parts = block_sums.as<double>();
    if (masks.dtype == DType::i32)
      enqueue(grid, dice_sums_kernel<T, ClassMasks<T>>, parts, x.as<const T>(),
              ClassMasks<T>{masks.as<const int32_t>(), counted}, K, P, blocks);
    else
      enqueue(grid, dice_sums_kernel<T, PlaneMasks<T>>, parts, x.as<const T>(),
              PlaneMasks<T>{masks.as<const T>()}, K, P, blocks);
    enqueue({1}, dice_loss_kernel<Wide<T>>, loss.as<Wide<T>>(), sums.as<double>(), parts, weights,
            counted, N * K, K, P, blocks);
  });
}

void dice_loss_backward(GradTarget dx, View dloss, View sums, View x, View masks,
                        ClassWeights weights, const Counted& counted) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  dispatch_floating(x.dtype, [&]<class T>() {
    const auto* seed = dloss.as<const Wide<T>>();
    const auto* of_planes = sums.as<const double>();
    with_beta(dx.beta, [&](auto accumulate) {
      if (masks.dtype == DType::i32)
        enqueue(grid_over(N * P), dice_classes_backward_kernel<accumulate.value, T>,
                dx.grad.as<T>(), seed, of_planes, x.as<const T>(), masks.as<const int32_t>(),
                weights, counted, N, K, P);
      else
        enqueue(grid_over(N * K * P), dice_planes_backward_kernel<accumulate.value, T>,
                dx.grad.as<T>(), seed, of_planes, x.as<const T>(), masks.as<const T>(), weights, N,
                K, P);
    });
  });
}

}  // namespace accrue::cuda
