#include <optional>

#include "kernels/detail/row_sums.cuh"

namespace accrue::cuda {
namespace {

constexpr int sum_threads = 512;

template <class W, int sums>
struct Sums {
  W of[sums] = {};
};

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
  if (pieces > 1) add_pieces<sum_threads, 1, sums>(outs, partials, C);
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
