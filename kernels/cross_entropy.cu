#include <limits>

#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// Large, so that a single block soon finishes the rows of a usual micro-batch.
constexpr int sum_threads = 512;

// Calls body with the number of lanes that share a row: a whole warp, or a quarter of it if each
// lane then has at most two classes. With ten classes, for example, most lanes of a whole warp
// would idle.
template <class Body>
void with_lanes(int64_t C, Body&& body) {
  if (C <= 16) body(std::integral_constant<int, 8>{});
  else body(std::integral_constant<int, warp_threads>{});
}

// Calls body(n, first element of row n, size, lane) for rows [begin, end). `lanes` neighbouring
// threads share a row, so a warp's accesses are contiguous. Warp `warp` of `warps` takes every
// warps-th group of rows. All lanes of a warp call body equally often, because body shuffles; lanes
// without a row get size 0.
template <int lanes, class T, class Body>
__device__ void for_each_row(T* x, int64_t C, int64_t begin, int64_t end, int64_t warp,
                             int64_t warps, Body body) {
  constexpr int rows = warp_threads / lanes;
  const int lane = threadIdx.x % lanes, row = threadIdx.x % warp_threads / lanes;
  for (int64_t first = begin + warp * rows; first < end; first += warps * rows) {
    const int64_t n = first + row;
    body(n, x + n * C, n < end ? C : 0, lane);
  }
}

// A row's maximum and its sum relative to the maximum. The row is read twice, the second time from
// the cache.
template <int lanes, class T, class W = Wide<T>>
__device__ RowSoftmax<W> row_softmax(const T* row, int32_t label, int64_t size, int lane) {
  W maximum = -std::numeric_limits<W>::infinity();
  for (int64_t c = lane; c < size; c += lanes) maximum = row[c] > maximum ? widen(row[c]) : maximum;
  maximum = warp_max<lanes>(maximum);
  RunningSum<W> rest;
  for (int64_t c = lane; c < size; c += lanes)
    rest.add(RowSoftmax<W>::term(row[c], maximum, c == label));
  return {maximum, warp_sum<lanes>(rest.total())};
}

template <class T, class W = Wide<T>>
__device__ W row_loss(const RowSoftmax<W>& softmax, const T* row, int32_t label, int64_t C) {
  return 0 <= label && label < C ? softmax.loss(row[label]) : std::numeric_limits<W>::quiet_NaN();
}

// A block takes `rows` consecutive rows. The first lane of each row adds the row's loss, and the
// block's threads are added in a tree. A grid of one block writes the mean itself, which saves a
// small model a launch; otherwise mean_kernel adds up the blocks' sums.
template <int lanes, class T, class W = Wide<T>>
__global__ void __launch_bounds__(sum_threads, 1)
    cross_entropy_kernel(W* loss, double* block_sums, const T* x, const int32_t* labels, int64_t N,
                         int64_t C, int64_t rows) {
  const int64_t begin = blockIdx.x * rows, end = N - begin < rows ? N : begin + rows;
  RunningSum<Wide<T>> sum;
  for_each_row<lanes>(x, C, begin, end, threadIdx.x / warp_threads, sum_threads / warp_threads,
                      [&](int64_t n, const T* row, int64_t size, int lane) {
                        const int32_t label = size > 0 ? labels[n] : 0;
                        const auto softmax = row_softmax<lanes>(row, label, size, lane);
                        if (size > 0 && lane == 0) sum.add(row_loss(softmax, row, label, C));
                      });
  const W total = block_sum<sum_threads>(sum.total());
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) *loss = total / static_cast<W>(N);
  else block_sums[blockIdx.x] = static_cast<double>(total);
}

// Rows are a grid apart. The softmax is computed again from x, which is cheaper than keeping it. dx
// may be x: the lanes that read a row write it, after its sums.
template <int lanes, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    cross_entropy_backward_kernel(T* dx, Seed<W> seed, const T* x, const int32_t* labels, int64_t N,
                                  int64_t C) {
  if (first_item() == 0) seed.add_loss();
  const W scale = seed.dloss() / static_cast<W>(N);
  for_each_row<lanes>(x, C, 0, N, first_item() / warp_threads, item_stride() / warp_threads,
                      [&](int64_t n, const T* row, int64_t size, int lane) {
                        const int32_t label = size > 0 ? labels[n] : 0;
                        const auto softmax = row_softmax<lanes>(row, label, size, lane);
                        if (size == 0) return;
                        const bool in_range = 0 <= label && label < C;
                        const W factor = in_range ? scale : std::numeric_limits<W>::quiet_NaN();
                        for (int64_t c = lane; c < size; c += lanes)
                          store(dx[n * C + c],
                                factor * (softmax.probability(row[c]) - W(c == label)),
                                std::bool_constant<accumulate>{});
                      });
}

// One block takes all rows: one launch is enough, and the order of the sums is fixed.
template <int lanes, class T>
__global__ void __launch_bounds__(sum_threads, 1)
    add_score_kernel(double* score, const T* x, const int32_t* labels, int64_t N, int64_t C) {
  RunningSum<Wide<T>> sum;
  int right = 0;
  for_each_row<lanes>(x, C, 0, N, threadIdx.x / warp_threads, sum_threads / warp_threads,
                      [&](int64_t n, const T* row, int64_t size, int lane) {
                        const int32_t label = size > 0 ? labels[n] : 0;
                        const auto softmax = row_softmax<lanes>(row, label, size, lane);
                        bool outdone = label < 0 || label >= C;
                        if (!outdone)
                          for (int64_t c = lane; c < size; c += lanes)
                            outdone = outdone || outdoes<Wide<T>>(row[c], row[label], c, label);
                        outdone = warp_max<lanes>(int{outdone});
                        if (size == 0 || lane != 0) return;
                        sum.add(row_loss(softmax, row, label, C));
                        right += !outdone;
                      });
  const Wide<T> loss = block_sum<sum_threads>(sum.total());
  right = block_sum<sum_threads>(right);
  if (threadIdx.x != 0) return;
  score[0] += static_cast<double>(loss);
  score[1] += right;
}

}  // namespace

void cross_entropy(View loss, View block_sums, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1], blocks = block_sums.numel();
  dispatch_floating(x.dtype, [&]<class T>() {
    const Grid grid{dim3(static_cast<unsigned>(blocks)), sum_threads};
    double* sums = block_sums.as<double>();
    with_lanes(C, [&](auto lanes) {
      enqueue(grid, cross_entropy_kernel<lanes.value, T>, loss.as<Wide<T>>(), sums, x.as<const T>(),
              labels.as<const int32_t>(), N, C, rows_per_block(C));
    });
    if (blocks > 1)
      enqueue({1}, mean_kernel<Wide<T>>, loss.as<Wide<T>>(), sums, blocks, static_cast<double>(N));
  });
}

void cross_entropy_backward(GradTarget dx, const LossSeed& seed, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1];
  dispatch_floating(x.dtype, [&]<class T>() {
    with_lanes(C, [&](auto lanes) {
      with_beta(dx.beta, [&](auto accumulate) {
        enqueue(grid_over(N * lanes.value),
                cross_entropy_backward_kernel<lanes.value, accumulate.value, T>, dx.grad.as<T>(),
                Seed<Wide<T>>(seed), x.as<const T>(), labels.as<const int32_t>(), N, C);
      });
    });
  });
}

void add_score(View score, View x, View labels) {
  const int64_t N = x.shape[0], C = x.shape[1];
  dispatch_floating(x.dtype, [&]<class T>() {
    with_lanes(C, [&](auto lanes) {
      enqueue({1, sum_threads}, add_score_kernel<lanes.value, T>, score.as<double>(),
              x.as<const T>(), labels.as<const int32_t>(), N, C);
    });
  });
}

}  // namespace accrue::cuda
