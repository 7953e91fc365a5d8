#include <array>
#include <optional>

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/norm_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

constexpr int sum_threads = 512;

template <class W, int sums>
struct Outs {
  ChannelTarget<W> of[sums];
};
template <class W, int sums>
struct Sums {
  W of[sums] = {};
};

// Adds up term.of_vector() over the vectors of each channel of x [N, C, S]. A block takes a piece
// of `columns` neighbouring channels. With one channel, a warp reads contiguous vectors of it. With
// several, where S is 1, a thread takes every (threads / columns)-th sample of one channel, and a
// warp reads whole runs of 32 bytes. The last block adds up the pieces, in order.
template <int columns, int width, int sums, class W, class Term>
__global__ void __launch_bounds__(sum_threads, 1)
    channel_sums_kernel(Outs<W, sums> outs, W* partials, Term term, int64_t N, int64_t C,
                        int64_t S) {
  constexpr int members = sum_threads / columns;
  const int64_t vectors = S / width, size = N * vectors;
  const int64_t piece = blockIdx.y, pieces = gridDim.y, end = size * (piece + 1) / pieces;
  const int64_t c = int64_t{blockIdx.x} * columns + threadIdx.x % columns;
  const int rank = threadIdx.x / columns;
  RunningSum<W> running[sums];
  if (c < C && size > 0) {
    // Divides once and then carries: a division for each vector would cost more than its elements.
    int64_t i = size * piece / pieces + rank, n = i / vectors, v = i % vectors;
    const int64_t step_n = members / vectors, step_v = members % vectors;
    for (; i < end; i += members) {
      const Sums<W, sums> of_vector =
          term.template of_vector<width>((n * C + c) * vectors + v, n, c);
      for (int s = 0; s < sums; ++s) running[s].add(of_vector.of[s]);
      n += step_n, v += step_v;
      if (v >= vectors) v -= vectors, ++n;
    }
  }
  for (int s = 0; s < sums; ++s) {
    const W sum = block_sum<sum_threads, columns>(running[s].total());
    if (c >= C || rank != 0) continue;
    if (pieces == 1) outs.of[s].store(c, sum);
    else partials[(piece * sums + s) * C + c] = sum;
  }
  if (pieces == 1 || !is_last_block()) return;
  for (int64_t k = threadIdx.x; k < C; k += sum_threads)
    for (int s = 0; s < sums; ++s) {
      double sum = 0;
      for (int64_t p = 0; p < pieces; ++p) sum += __ldcg(&partials[(p * sums + s) * C + k]);
      outs.of[s].store(k, static_cast<W>(sum));
    }
}

template <class T, int sums, class Term>
void channel_sums(const Outs<Wide<T>, sums>& outs, View scratch, const Term& term, int64_t N,
                  int64_t C, int64_t S, std::initializer_list<const void*> arrays) {
  if (C == 0) return;
  const ChannelPieces cut(N, C, S);
  const Grid grid{dim3(static_cast<unsigned>(cut.blocks), static_cast<unsigned>(cut.pieces)),
                  sum_threads};
  const auto launch_for = [&](auto columns, auto width) {
    enqueue(grid, channel_sums_kernel<columns.value, width.value, sums, Wide<T>, Term>, outs,
            scratch.as<Wide<T>>(), term, N, C, S);
  };
  using One = std::integral_constant<int, 1>;
  using Eight = std::integral_constant<int, 8>;
  if (cut.channels == Eight::value) launch_for(Eight{}, One{});
  else with_plane_width<T>(S, arrays, [&](auto width) { launch_for(One{}, width); });
}

template <class T>
struct Plain {
  const T* dy;

  template <int width>
  __device__ Sums<Wide<T>, 1> of_vector(int64_t v, int64_t, int64_t) const {
    Sums<Wide<T>, 1> sum;
    for (const T d : load_vector<width>(dy, v).values) sum.of[0] += d;
    return sum;
  }
};

// The terms of the gradients of gamma and beta.
template <class T, class W = Wide<T>>
struct Affine {
  const T *dy, *x;
  Statistics<W> statistics;
  Grouping at;

  template <int width>
  __device__ Sums<W, 2> of_vector(int64_t v, int64_t n, int64_t c) const {
    const Standardized<W> standardized = statistics[at.group_of(n, c)];
    const auto d = load_vector<width>(dy, v), values = load_vector<width>(x, v);
    Sums<W, 2> sum;
    for (int w = 0; w < width; ++w) {
      sum.of[0] += d.values[w] * standardized(values.values[w]);
      sum.of[1] += d.values[w];
    }
    return sum;
  }
};

}  // namespace

void channel_sum(GradTarget db, View dy, View scratch) {
  const int64_t P = dy.shape.numel(2, dy.shape.rank());
  dispatch_floating(dy.dtype, [&]<class T>() {
    channel_sums<T, 1>({{ChannelTarget<Wide<T>>(db)}}, scratch, Plain<T>{dy.as<const T>()},
                       dy.shape[0], dy.shape[1], P, {dy.data});
  });
}

void affine_backward(std::optional<GradTarget> dgamma, std::optional<GradTarget> dbeta, View dy,
                     View x, Normalizer by, View scratch) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const Affine<T> term{dy.as<const T>(), x.as<const T>(), by.statistics<W>(), by.at};
        channel_sums<T, 2>({{ChannelTarget<W>(dgamma), ChannelTarget<W>(dbeta)}}, scratch, term,
                           by.at.N, by.at.C, by.at.S, {dy.data, x.data});
      });
}

}  // namespace accrue::cuda
