#include <array>
#include <optional>
#include <utility>

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

// Adds up the pieces' sums of `columns` neighbouring channels, in the last block of these channels.
// A thread adds every few pieces of a channel, in order, so the bits do not depend on which block
// is last. Every thread of the block must call it.
template <int threads, int columns, int sums, class W>
__device__ void add_pieces(const Outs<W, sums>& outs, const W* partials, int64_t C) {
  if (!is_last_block(blockIdx.x, gridDim.y)) return;
  constexpr int members = threads / columns;
  const int64_t c = int64_t{blockIdx.x} * columns + threadIdx.x % columns, pieces = gridDim.y;
  double of_member[sums] = {};
  if (c < C)
    for (int64_t piece = threadIdx.x / columns; piece < pieces; piece += members)
      for (int s = 0; s < sums; ++s) of_member[s] += __ldcg(&partials[(piece * sums + s) * C + c]);
  for (int s = 0; s < sums; ++s) {
    const double sum = block_sum<threads, columns>(of_member[s]);
    if (threadIdx.x < columns && c < C) outs.of[s].store(c, static_cast<W>(sum));
  }
}

// Adds up term.of_vector() over the vectors of each channel of x [N, C, S], S > 1. A block takes a
// piece of a channel, and a warp reads contiguous vectors of it.
template <int width, int sums, class Term, class W>
__global__ void __launch_bounds__(sum_threads, 1)
    channel_sums_kernel(Outs<W, sums> outs, W* partials, Term term, int64_t N, int64_t C,
                        int64_t S) {
  const int64_t vectors = S / width, size = N * vectors;
  const int64_t piece = blockIdx.y, pieces = gridDim.y, end = size * (piece + 1) / pieces;
  const int64_t c = blockIdx.x;
  RunningSum<W> running[sums];
  if (size > 0) {
    // Divides once and then carries: a division for each vector would cost more than its elements.
    int64_t i = size * piece / pieces + threadIdx.x, n = i / vectors, v = i % vectors;
    const int64_t step_n = sum_threads / vectors, step_v = sum_threads % vectors;
    for (; i < end; i += sum_threads) {
      const Sums<W, sums> of_vector =
          term.template of_vector<width>((n * C + c) * vectors + v, n, c);
      for (int s = 0; s < sums; ++s) running[s].add(of_vector.of[s]);
      n += step_n, v += step_v;
      if (v >= vectors) v -= vectors, ++n;
    }
  }
  for (int s = 0; s < sums; ++s) {
    const W sum = block_sum<sum_threads>(running[s].total());
    if (threadIdx.x != 0) continue;
    if (pieces == 1) outs.of[s].store(c, sum);
    else partials[(piece * sums + s) * C + c] = sum;
  }
  if (pieces > 1) add_pieces<sum_threads, 1>(outs, partials, C);
}

// The channels of a lane in one row, where S = 1.
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

// The same for S = 1. A block takes a piece of the rows, and in each row its neighbouring channels,
// which are a line of memory. A thread loads its channels of several rows before it adds them, in
// order. The block then adds up its rows' sums, through shuffles and shared memory.
template <int width, int sums, class Term, class W>
__global__ void __launch_bounds__(block_threads)
    row_sums_kernel(Outs<W, sums> outs, W* partials, Term term, int64_t N, int64_t C) {
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
  for (int s = 0; s < sums && column < columns && c < C; ++s) {
    W sum = 0;
    for (int warp = 0; warp < warps; ++warp) sum += of_warp[warp][s][column];
    if (pieces == 1) outs.of[s].store(c, sum);
    else partials[(piece * sums + s) * C + c] = sum;
  }
  if (pieces > 1) add_pieces<block_threads, columns>(outs, partials, C);
}

inline dim3 blocks_of(const ChannelPieces& cut) {
  static_assert(ChannelPieces::enough / 2 <= most_places);
  return {static_cast<unsigned>(cut.blocks), static_cast<unsigned>(cut.pieces)};
}

// `run` is the number of neighbouring elements of a row or plane that a term takes as vectors.
template <class T, int sums, class Term>
void row_sums(const Outs<Wide<T>, sums>& outs, View scratch, const Term& term, int64_t N, int64_t C,
              int64_t run, std::initializer_list<const void*> arrays) {
  if (C == 0) return;
  const Grid grid{blocks_of(ChannelPieces(N, C, 1, dtype_of<T>()))};
  with_width<T>(run, arrays, [&](auto width) {
    enqueue(grid, row_sums_kernel<width.value, sums, Term, Wide<T>>, outs,
            static_cast<Wide<T>*>(scratch.data), term, N, C);
  });
}

template <class T, int sums, class Term>
void channel_sums(const Outs<Wide<T>, sums>& outs, View scratch, const Term& term, int64_t N,
                  int64_t C, int64_t S, int64_t run, std::initializer_list<const void*> arrays) {
  if (S == 1) return row_sums<T, sums>(outs, scratch, term, N, C, run, arrays);
  if (C == 0) return;
  const Grid grid{blocks_of(ChannelPieces(N, C, S, dtype_of<T>())), sum_threads};
  with_plane_width<T>(S, arrays, [&](auto width) {
    enqueue(grid, channel_sums_kernel<width.value, sums, Term, Wide<T>>, outs,
            static_cast<Wide<T>*>(scratch.data), term, N, C, S);
  });
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

  // The same of a lane's channels, row by row.
  template <int width>
  struct Lane {
    static constexpr int channels = lane_channels<T>;
    using Row = LaneChannels<T>;
    const T* dy;
    int64_t c, C;

    __device__ Lane(const Plain& term, int64_t c, int64_t C) : dy(term.dy), c(c), C(C) {}
    __device__ Row load(int64_t n) const { return load_channels<width>(dy, n, c, C); }
    __device__ void terms(Wide<T> (&of)[channels], const Row& row, int64_t) const {
      for (int k = 0; k < channels; ++k) of[k] = widen(row.values[k]);
    }
  };
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

  // A vector's channels have one group; single ones may each have their own.
  template <int width>
  struct Lane {
    static constexpr int channels = lane_channels<T>, groups = width > 1 ? 1 : channels;
    struct Row {
      LaneChannels<T> d, x;
      Standardized<W> by[groups];
    };
    const Affine& term;
    int64_t c, C, groups_of_row;
    int group[groups];

    __device__ Lane(const Affine& term, int64_t c, int64_t C)
        : term(term),
          c(c),
          C(C),
          groups_of_row(term.at.over == Grouping::Over::batch ? 0 : term.at.per_sample()) {
      for (int k = 0; k < groups; ++k)
        group[k] = static_cast<int>((c + k < C ? c + k : C - 1) / term.at.K);
    }
    __device__ Row load(int64_t n) const {
      Row row{load_channels<width>(term.dy, n, c, C), load_channels<width>(term.x, n, c, C), {}};
      for (int k = 0; k < groups; ++k) row.by[k] = term.statistics[n * groups_of_row + group[k]];
      return row;
    }
    __device__ void terms(W (&of)[2 * channels], const Row& row, int64_t) const {
      for (int k = 0; k < channels; ++k) {
        of[channels + k] = widen(row.d.values[k]);
        of[k] = of[channels + k] * row.by[k % groups](row.x.values[k]);
      }
    }
  };
};

// dz = dy * f'(z), which replaces dy and is rounded before it is added.
template <class T, class F>
struct ThroughSlope {
  T* dy;
  const T* z;
  F f;

  template <int width>
  struct Lane {
    static constexpr int channels = lane_channels<T>;
    struct Row {
      LaneChannels<T> d, z;
    };
    const ThroughSlope& term;
    int64_t c, C;

    __device__ Lane(const ThroughSlope& term, int64_t c, int64_t C) : term(term), c(c), C(C) {}
    __device__ Row load(int64_t n) const {
      return {load_channels<width>(term.dy, n, c, C), load_channels<width>(term.z, n, c, C)};
    }
    __device__ void terms(Wide<T> (&of)[channels], const Row& row, int64_t n) const {
      LaneChannels<T> dz;
      for (int k = 0; k < channels; ++k) {
        dz.values[k] = T(widen(row.d.values[k]) * term.f.slope_at(widen(row.z.values[k])));
        of[k] = widen(dz.values[k]);
      }
      store_channels<width>(term.dy, n, c, C, dz);
    }
  };
};

}  // namespace

void channel_sum(GradTarget db, View dy, View scratch) {
  const int64_t P = dy.shape.numel(2, dy.shape.rank());
  dispatch_floating(dy.dtype, [&]<class T>() {
    channel_sums<T, 1>({{ChannelTarget<Wide<T>>(db)}}, scratch, Plain<T>{dy.as<const T>()},
                       dy.shape[0], dy.shape[1], P, P == 1 ? dy.shape[1] : P, {dy.data});
  });
}

void slope_and_sums(View dy, GradTarget db, View z, const formula::AnyPointwise& formula,
                    View scratch) {
  const int64_t N = dy.shape[0], C = dy.shape[1];
  std::visit(
      [&]<class F>(F f) {
        if constexpr (F::keeps == formula::Keeps::x)
          dispatch_floating(dy.dtype, [&]<class T>() {
            row_sums<T, 1>({{ChannelTarget<Wide<T>>(db)}}, scratch,
                           ThroughSlope<T, F>{dy.as<T>(), z.as<const T>(), f}, N, C, C,
                           {dy.data, z.data});
          });
        else check(false, "[slope_and_sums] {} keeps y: expected a formula that keeps x", F::name);
      },
      formula);
}

void affine_backward(std::optional<GradTarget> dgamma, std::optional<GradTarget> dbeta, View dy,
                     View x, Normalizer by, View scratch) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const Affine<T> term{dy.as<const T>(), x.as<const T>(), by.statistics<W>(), by.at};
        channel_sums<T, 2>({{ChannelTarget<W>(dgamma), ChannelTarget<W>(dbeta)}}, scratch, term,
                           by.at.N, by.at.C, by.at.S, by.at.S == 1 ? by.at.K : by.at.S,
                           {dy.data, x.data});
      });
}

}  // namespace accrue::cuda
