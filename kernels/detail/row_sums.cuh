#pragma once

#include <type_traits>
#include <utility>

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/norm_kernels.h"
#include "kernels/detail/reduce.cuh"

// Sums over the rows of x [N, C], one for each column, and over other channels as far as their
// pieces are added up alike (kernels/detail/channel_sums.h).
namespace accrue::cuda {

// Stores each sum of a channel by itself.
template <class W, int sums>
struct Outs {
  ChannelTarget<W> of[sums];
  __device__ void operator()(int64_t c, const W (&values)[sums]) const {
    for (int s = 0; s < sums; ++s) of[s].store(c, values[s]);
  }
};

// Adds up the pieces' sums of `columns` neighbouring channels, in the last block of these channels.
// A thread adds every few pieces of a channel, in order, so the bits do not depend on which block
// is last. out(c, sums) stores what a channel's sums make. Every thread of the block must call it.
template <int threads, int columns, int sums, class Out, class W>
__device__ void add_pieces(const Out& out, const W* partials, int64_t C) {
  if (!is_last_block(blockIdx.x, gridDim.y)) return;
  constexpr int members = threads / columns;
  const int64_t c = int64_t{blockIdx.x} * columns + threadIdx.x % columns, pieces = gridDim.y;
  double of_member[sums] = {};
  if (c < C)
    for (int64_t piece = threadIdx.x / columns; piece < pieces; piece += members)
      for (int s = 0; s < sums; ++s) of_member[s] += __ldcg(&partials[(piece * sums + s) * C + c]);
  W all[sums];
  for (int s = 0; s < sums; ++s) all[s] = static_cast<W>(block_sum<threads, columns>(of_member[s]));
  if (threadIdx.x < columns && c < C) out(c, all);
}

// The channels of a lane in one row.
template <class T>
inline constexpr int lane_channels = ChannelPieces::lane_bytes / sizeof(T);
template <class T>
using LaneChannels = Vector<T, lane_channels<T>>;

// Channels c, c + 1, ... of row n of x [N, C]: by one access, or with width 1 one by one, where
// those beyond the last are 0.
template <int width, class T>
__device__ LaneChannels<T> load_channels(const T* x, int64_t n, int64_t c, int64_t C) {
  const T* const first = x + n * C + c;
  if constexpr (width > 1) return load_vector<width>(first, 0);
  LaneChannels<T> values = {};
  for (int k = 0; k < lane_channels<T>; ++k)
    if (c + k < C) values.values[k] = first[k];
  return values;
}

template <int width, class T>
__device__ void store_channels(T* x, int64_t n, int64_t c, int64_t C,
                               const LaneChannels<T>& values) {
  T* const first = x + n * C + c;
  if constexpr (width > 1) {
    store_vector(first, 0, values);
  } else {
    for (int k = 0; k < lane_channels<T>; ++k)
      if (c + k < C) first[k] = values.values[k];
  }
}

// Adds up the terms of the rows of each column of x [N, C]. A block takes a piece of the rows, and
// in each row its neighbouring channels, which are a line of memory. A thread loads its channels of
// several rows before it adds them, in order. The block then adds up its rows' sums, through
// shuffles and shared memory.
template <int width, int sums, class Out, class Term, class W>
__global__ void __launch_bounds__(block_threads)
    row_sums_kernel(Out out, W* partials, Term term, int64_t N, int64_t C) {
  using Lane = typename Term::template Lane<width>;
  constexpr int lanes = ChannelPieces::lanes, step = block_threads / lanes;
  // More rows of double would not stay in registers beside a slope's terms.
  constexpr int at_once = width > 1 ? 4 / sums : std::is_same_v<W, double> ? 1 : 2 / sums;
  constexpr int warps = block_threads / warp_threads, channels = Lane::channels;
  constexpr int columns = lanes * channels;
  __shared__ W of_warp[warps][sums][columns];
  const int64_t piece = blockIdx.y, pieces = gridDim.y, end = N * (piece + 1) / pieces;
  const int64_t first = int64_t{blockIdx.x} * columns;
  const int lane = threadIdx.x % lanes;
  RunningSums<W, sums * channels> running;
  if (first + lane * channels < C) {
    const Lane of_lane(term, first + lane * channels, C);
    for (int64_t n = N * piece / pieces + threadIdx.x / lanes; n < end; n += at_once * step) {
      typename Lane::Row rows[at_once];
      for (int r = 0; r < at_once; ++r)
        if (n + r * step < end) rows[r] = of_lane.load(n + r * step);
      // Unrolled whatever a term costs, so that rows stay in registers.
      [&]<int... r>(std::integer_sequence<int, r...>) {
        const auto add = [&](const typename Lane::Row& row, int64_t at) {
          if (at >= end) return;
          W terms[sums * channels];
          of_lane.terms(terms, row, at);
          running.add(terms);
        };
        (add(rows[r], n + r * step), ...);
      }
      (std::make_integer_sequence<int, at_once>());
    }
  }
  for (int s = 0; s < sums; ++s)
    for (int k = 0; k < channels; ++k) {
      const W sum = warp_sum<warp_threads, lanes>(running.total(s * channels + k));
      if (threadIdx.x % warp_threads < lanes)
        of_warp[threadIdx.x / warp_threads][s][lane * channels + k] = sum;
    }
  __syncthreads();
  const int column = threadIdx.x;
  const int64_t c = first + column;
  if (column < columns && c < C) {
    W all[sums] = {};
    for (int s = 0; s < sums; ++s)
      for (int warp = 0; warp < warps; ++warp) all[s] += of_warp[warp][s][column];
    if (pieces == 1) out(c, all);
    else
      for (int s = 0; s < sums; ++s) partials[(piece * sums + s) * C + c] = all[s];
  }
  if (pieces > 1) add_pieces<block_threads, columns, sums>(out, partials, C);
}

inline dim3 blocks_of(const ChannelPieces& cut) {
  static_assert(ChannelPieces::enough / 2 <= most_places);
  return {static_cast<unsigned>(cut.blocks), static_cast<unsigned>(cut.pieces)};
}

// `run` is the number of neighbouring elements of a row or plane that a term takes as vectors.
template <class T, int sums, class Term, class Out = Outs<Wide<T>, sums>>
void row_sums(const Out& out, View scratch, const Term& term, int64_t N, int64_t C, int64_t run,
              std::initializer_list<const void*> arrays) {
  if (C == 0) return;
  const Grid grid{blocks_of(ChannelPieces(N, C, 1, dtype_of<T>()))};
  with_width<T>(run, arrays, [&](auto width) {
    enqueue(grid, row_sums_kernel<width.value, sums, Out, Term, Wide<T>>, out,
            static_cast<Wide<T>*>(scratch.data), term, N, C);
  });
}

}  // namespace accrue::cuda
