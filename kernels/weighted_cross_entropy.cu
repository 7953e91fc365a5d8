#include <limits>

#include "kernels/detail/class_terms.h"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

constexpr int warps_of_block = block_threads / warp_threads;

// A block has `elements_per_block` consecutive samples, a thread every 256th of them.
__global__ void __launch_bounds__(block_threads)
    sum_of_weights_kernel(double* block_sums, const int32_t* labels, ClassTerms terms,
                          SampleWeights s, int64_t N, int64_t C) {
  const int64_t begin = blockIdx.x * elements_per_block;
  const int64_t end = N - begin < elements_per_block ? N : begin + elements_per_block;
  double sum = 0;
  for (int64_t n = begin + threadIdx.x; n < end; n += block_threads) {
    const int32_t label = labels[n];
    if (label == not_judged) continue;
    sum += s[n] * (0 <= label && label < C ? terms.weight(label) : 0);
  }
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

// Maximum and sum around it, in all lanes of a warp that shares a row.
template <class T, class W = Wide<T>>
__device__ RowSoftmax<W> softmax_of(const T* row, int32_t label, int64_t C, int lane) {
  W maximum = -std::numeric_limits<W>::infinity();
  for (int64_t c = lane; c < C; c += warp_threads)
    maximum = row[c] > maximum ? widen(row[c]) : maximum;
  maximum = warp_max(maximum);
  RunningSum<W> rest;
  for (int64_t c = lane; c < C; c += warp_threads)
    rest.add(RowSoftmax<W>::term(row[c], maximum, c == label));
  return {maximum, warp_sum(rest.total())};
}

// sum_c q[n, c] * -log p[n, c] / s[n], in all lanes of a warp that shares the row.
template <class T, class W = Wide<T>>
__device__ double row_loss(const ClassTerms& terms, const T* row, int32_t label, int64_t C,
                           int lane) {
  const RowSoftmax<W> softmax = softmax_of(row, label, C, lane);
  double sum = terms.of_label(label) * double(softmax.loss(row[label]));
  if (!terms.smooths()) return sum;
  double rest = 0;
  for (int64_t c = lane; c < C; c += warp_threads)
    rest += terms.of_class(c) * double(softmax.maximum - widen(row[c]));
  return sum + terms.of_all_classes() * double(std::log1p(softmax.rest)) + warp_sum(rest);
}

// A block has `rows` consecutive rows, a warp every eighth of them, whose lanes share it, so that
// accesses are contiguous; the first lane of each adds up its warp's rows.
template <class T>
__global__ void __launch_bounds__(block_threads)
    weighted_cross_entropy_kernel(double* block_sums, const T* x, const int32_t* labels,
                                  SampleWeights s, ClassTerms terms, int64_t N, int64_t C,
                                  int64_t rows) {
  const int64_t begin = blockIdx.x * rows, end = N - begin < rows ? N : begin + rows;
  const int lane = threadIdx.x % warp_threads;
  double sum = 0;
  for (int64_t n = begin + threadIdx.x / warp_threads; n < end; n += warps_of_block) {
    const int32_t label = labels[n];
    if (label == not_judged || s[n] == 0) continue;
    const double loss = 0 <= label && label < C ? row_loss(terms, x + n * C, label, C, lane)
                                                : std::numeric_limits<double>::quiet_NaN();
    if (lane == 0) sum += s[n] * loss;
  }
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

// One block adds up what the others have summed.
template <class W>
__global__ void __launch_bounds__(block_threads)
    mean_over_weight_kernel(W* loss, const double* sums, int64_t count, const double* weight) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += sums[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) *loss = static_cast<W>(mean_over(sum, *weight));
}

// A warp for each row, rows a grid apart. The softmax is taken again from x, cheaper than keeping
// it. dx may be x: a row is written by the lanes that read it, after their sums. With the second
// bound, registers do not spill for the sake of more blocks.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads, 2)
    weighted_cross_entropy_backward_kernel(T* dx, Seed<W> seed, const T* x, const int32_t* labels,
                                           SampleWeights s, const double* weight, ClassTerms terms,
                                           int64_t N, int64_t C) {
  if (first_item() == 0) seed.add_loss();
  const double scale = mean_over(double(seed.dloss()), *weight);
  const int lane = threadIdx.x % warp_threads;
  for (int64_t n = first_item() / warp_threads; n < N; n += item_stride() / warp_threads) {
    const int32_t label = labels[n];
    const bool counts = label != not_judged && s[n] != 0, in_range = 0 <= label && label < C;
    const auto softmax = softmax_of(x + n * C, label, C, lane);
    const double factor = in_range ? scale * s[n] : std::numeric_limits<double>::quiet_NaN();
    const W of_row = in_range ? W(factor * terms.of_row(label)) : W(factor),
            of_label = in_range ? W(factor * terms.of_label(label)) : W(factor);
    for (int64_t c = lane; c < C; c += warp_threads) {
      const W q = W(factor * terms.of_class(c)) + (c == label ? of_label : W(0));
      store(dx[n * C + c], counts ? of_row * softmax.probability(x[n * C + c]) - q : W(0),
            std::bool_constant<accumulate>{});
    }
  }
}

// A warp for each row.
template <class T>
__global__ void __launch_bounds__(block_threads)
    find_right_kernel(int32_t* is_right, const T* x, const int32_t* labels, int64_t N, int64_t C) {
  const int lane = threadIdx.x % warp_threads;
  for (int64_t n = first_item() / warp_threads; n < N; n += item_stride() / warp_threads) {
    const int32_t label = labels[n];
    bool outdone = label < 0 || label >= C;
    if (!outdone)
      for (int64_t c = lane; c < C; c += warp_threads)
        outdone = outdone || outdoes<Wide<T>>(x[n * C + c], x[n * C + label], c, label);
    outdone = warp_max(int{outdone});
    if (lane == 0) is_right[n] = !outdone;
  }
}

// A thread for each class, which goes over all samples: no class is added to by two.
__global__ void __launch_bounds__(block_threads)
    count_classes_kernel(double* score, const int32_t* is_right, const int32_t* labels, int64_t N,
                         int64_t C) {
  for (int64_t c = first_item(); c < C; c += item_stride()) {
    int64_t right = 0, all = 0;
    for (int64_t n = 0; n < N; ++n)
      if (labels[n] == c) right += is_right[n], ++all;
    score[2 * c] += double(right);
    score[2 * c + 1] += double(all);
  }
}

Grid blocks(int64_t n) { return {dim3(static_cast<unsigned>(n)), block_threads}; }

}  // namespace

void sum_of_weights(View weight, View block_sums, View labels, View class_weights,
                    View sample_weights, int64_t C) {
  double* sums = block_sums.as<double>();
  enqueue(blocks(block_sums.numel()), sum_of_weights_kernel, sums, labels.as<const int32_t>(),
          ClassTerms(class_weights, 0, 0, C), SampleWeights(sample_weights), labels.numel(), C);
  enqueue({1}, mean_kernel<double>, weight.as<double>(), sums, block_sums.numel(), 1.0);
}

void weighted_cross_entropy(View loss, View block_sums, View x, View labels, View sample_weights,
                            View weight, const ClassTerms& terms) {
  const int64_t N = x.shape[0], C = x.shape[1];
  double* sums = block_sums.as<double>();
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(blocks(block_sums.numel()), weighted_cross_entropy_kernel<T>, sums, x.as<const T>(),
            labels.as<const int32_t>(), SampleWeights(sample_weights), terms, N, C,
            rows_per_block(C));
    enqueue({1}, mean_over_weight_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, block_sums.numel(),
            weight.as<const double>());
  });
}

void weighted_cross_entropy_backward(GradTarget dx, const LossSeed& seed, View x, View labels,
                                     View sample_weights, View weight, const ClassTerms& terms) {
  const int64_t N = x.shape[0], C = x.shape[1];
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      enqueue(grid_over(N * warp_threads),
              weighted_cross_entropy_backward_kernel<accumulate.value, T>, dx.grad.as<T>(),
              Seed<Wide<T>>(seed), x.as<const T>(), labels.as<const int32_t>(),
              SampleWeights(sample_weights), weight.as<const double>(), terms, N, C);
    });
  });
}

void add_class_score(View score, View is_right, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1];
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue(grid_over(N * warp_threads), find_right_kernel<T>, is_right.as<int32_t>(),
            x.as<const T>(), labels.as<const int32_t>(), N, C);
  });
  enqueue(grid_over(C), count_classes_kernel, score.as<double>(), is_right.as<const int32_t>(),
          labels.as<const int32_t>(), N, C);
}

}  // namespace accrue::cuda
