#include "core/ceil_div.h"
#include "kernels/detail/norm_columns.h"
#include "kernels/detail/norm_finish.cuh"
#include "kernels/detail/row_sums.cuh"

// BatchNorm of rows x [N, C], to which images with channels last belong. As in
// kernels/detail/row_sums.cuh, a thread takes the neighbouring channels of a lane and goes through
// rows; it computes what belongs to a channel once.
namespace accrue::cuda {
namespace {

constexpr int lanes = ChannelPieces::lanes, row_step = block_threads / lanes;

// The channels of this thread, of which those beyond the last do not count.
template <class T>
__device__ int64_t first_channel() {
  return (int64_t{blockIdx.x} * lanes + threadIdx.x % lanes) * lane_channels<T>;
}

// The moments of a thread's rows, for each channel of its lane.
template <class T, class W = Wide<T>>
struct LaneMoments {
  static constexpr int channels = lane_channels<T>;
  W mean[channels] = {}, deviations[channels] = {};
  int64_t rows = 0;

  // Adds the first `count` of some rows. Their own moments come from two passes over registers, and
  // the sets are joined by (Chan, Golub & LeVeque 1983)
  //   deviations += deviations_b + (mean_b - mean)^2 rows rows_b / (rows + rows_b),
  // so a large mean costs no digits although memory is read once.
  template <int most>
  __device__ void add(const LaneChannels<T> (&values)[most], int count) {
    const W share = static_cast<W>(count) / static_cast<W>(rows + count);
    const W before = static_cast<W>(rows);
    for (int k = 0; k < channels; ++k) {
      W sum = 0, squares = 0;
      for (int r = 0; r < most; ++r)
        if (r < count) sum += values[r].values[k];
      const W center = sum / static_cast<W>(count);
      for (int r = 0; r < most; ++r)
        if (r < count) squares += (values[r].values[k] - center) * (values[r].values[k] - center);
      const W away = center - mean[k];
      mean[k] += away * share;
      deviations[k] += squares + away * away * share * before;
    }
    rows += count;
  }
};

// Joins the moments of the pieces in two steps: the mean of all, then the deviations from it. As in
// add_pieces(), the last block of these channels does so, and a thread takes every few pieces.
template <int columns, class W>
__device__ void join_pieces(const MomentsOut<W>& out, const W* partials, int64_t N, int64_t C) {
  if (!is_last_block(blockIdx.x, gridDim.y)) return;
  constexpr int members = block_threads / columns;
  const int64_t c = int64_t{blockIdx.x} * columns + threadIdx.x % columns, pieces = gridDim.y;
  const auto sum_of_pieces = [&](const auto& term) {
    double sum = 0;
    if (c < C)
      for (int64_t p = threadIdx.x / columns; p < pieces; p += members)
        sum += term(p, static_cast<double>(N * (p + 1) / pieces - N * p / pieces),
                    static_cast<double>(__ldcg(&partials[2 * p * C + c])));
    return block_sum<block_threads, columns>(sum);
  };
  const double mean =
      sum_of_pieces([](int64_t, double rows, double of_piece) { return rows * of_piece; }) /
      static_cast<double>(N);
  const double deviations = sum_of_pieces([&](int64_t p, double rows, double of_piece) {
    const double away = of_piece - mean;
    return __ldcg(&partials[(2 * p + 1) * C + c]) + rows * away * away;
  });
  if (threadIdx.x < columns && c < C)
    out.store(c, static_cast<W>(mean), static_cast<W>(deviations));
}

// A block computes the moments of a piece of the rows, joining its threads' in the same two steps.
template <int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    column_moments_kernel(MomentsOut<W> out, W* partials, const T* x, int64_t N, int64_t C) {
  constexpr int at_once = width > 1 ? 4 : 2, channels = lane_channels<T>;
  const int64_t piece = blockIdx.y, pieces = gridDim.y, begin = N * piece / pieces,
                end = N * (piece + 1) / pieces;
  const int64_t first = first_channel<T>();
  LaneMoments<T> moments;
  if (first < C)
    for (int64_t n = begin + threadIdx.x / lanes; n < end; n += at_once * row_step) {
      LaneChannels<T> rows[at_once];
      int count = 0;
      for (int r = 0; r < at_once; ++r)
        if (n + r * row_step < end) {
          rows[r] = load_channels<width>(x, n + r * row_step, first, C);
          ++count;
        }
      moments.add(rows, count);
    }
  const W rows = static_cast<W>(moments.rows), all_rows = static_cast<W>(end - begin);
  for (int k = 0; k < channels; ++k) {
    const W mean = block_sum<block_threads, lanes>(rows * moments.mean[k]) / all_rows,
            away = moments.mean[k] - mean,
            deviations =
                block_sum<block_threads, lanes>(moments.deviations[k] + rows * away * away);
    const int64_t c = first + k;
    if (threadIdx.x >= lanes || c >= C) continue;
    if (pieces == 1) {
      out.store(c, mean, deviations);
    } else {
      partials[2 * piece * C + c] = mean;
      partials[(2 * piece + 1) * C + c] = deviations;
    }
  }
  if (pieces > 1) join_pieces<lanes * channels>(out, partials, N, C);
}

// The moments, gamma and beta of a lane's channels.
template <class T, class W = Wide<T>>
struct LaneMap {
  static constexpr int channels = lane_channels<T>;
  Standardized<W> standardized[channels];
  W gamma[channels], beta[channels];

  __device__ LaneMap(const Statistics<W>& statistics, const PerChannel<W>& gammas,
                     const PerChannel<W>& betas, int64_t first, int64_t C) {
    for (int k = 0; k < channels; ++k) {
      const int64_t c = first + k < C ? first + k : C - 1;
      standardized[k] = statistics[c];
      gamma[k] = gammas[c], beta[k] = betas[c];
    }
  }
};

// Calls body(n) for the rows of this thread, a grid apart.
template <class Body>
__device__ void for_each_row(int64_t N, const Body& body) {
  const int64_t stride = int64_t{gridDim.y} * row_step;
  for (int64_t n = int64_t{blockIdx.y} * row_step + threadIdx.x / lanes; n < N; n += stride)
    body(n);
}

template <bool backward, int width, class F, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    normalize_columns_kernel(T* values, const T* x, Statistics<W> statistics, PerChannel<W> gamma,
                             PerChannel<W> beta, F f, int64_t N, int64_t C) {
  const int64_t first = first_channel<T>();
  if (first >= C) return;
  const LaneMap<T> map(statistics, gamma, beta, first, C);
  for_each_row(N, [&](int64_t n) {
    const auto xs = load_channels<width>(x, n, first, C);
    LaneChannels<T> out;
    if constexpr (backward) out = load_channels<width>(values, n, first, C);
    for (int k = 0; k < lane_channels<T>; ++k) {
      T& value = out.values[k];
      const T y = T(f(map.standardized[k](xs.values[k]) * map.gamma[k] + map.beta[k]));
      if constexpr (backward) value = T(formula::Backward<F>{f}(widen(value), widen(y)));
      else value = y;
    }
    store_channels<width>(values, n, first, C, out);
  });
}

// dz of a lane's channel k from dy.
template <bool is_relu, class T, class W = Wide<T>>
__device__ W dz_of(const LaneMap<T>& map, int k, T x, T dy) {
  if constexpr (is_relu)
    return ThroughRelu<T>::dz(map.standardized[k], x, dy, map.gamma[k], map.beta[k]);
  else return widen(dy);
}

// The sums of dz and of dz * (x - mean).
template <bool is_relu, class T, class W = Wide<T>>
struct DxSums {
  const T *dy, *x;
  Statistics<W> statistics;
  PerChannel<W> gamma, beta;

  template <int width>
  struct Lane {
    static constexpr int channels = lane_channels<T>;
    struct Row {
      LaneChannels<T> d, x;
    };
    const DxSums& term;
    int64_t c, C;
    LaneMap<T> map;

    __device__ Lane(const DxSums& term, int64_t c, int64_t C)
        : term(term), c(c), C(C), map(term.statistics, term.gamma, term.beta, c, C) {}
    __device__ Row load(int64_t n) const {
      return {load_channels<width>(term.dy, n, c, C), load_channels<width>(term.x, n, c, C)};
    }
    __device__ void terms(W (&of)[2 * channels], const Row& row, int64_t) const {
      for (int k = 0; k < channels; ++k) {
        of[k] = dz_of<is_relu>(map, k, row.x.values[k], row.d.values[k]);
        of[channels + k] = of[k] * (row.x.values[k] - map.standardized[k].mean);
      }
    }
  };
};

// Makes the terms of a column of its sums.
template <class T, class W = Wide<T>>
struct FinishColumn {
  Finish<T> finish;
  DxTerms<W>* terms;
  __device__ void operator()(int64_t c, const W (&sums)[2]) const {
    terms[c] = finish(c, sums[0], sums[1], true);
  }
};

// If the moments are constants, there are no terms: both count as 0, and x is null.
template <int width, bool accumulate, bool is_relu, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    column_dx_kernel(T* dx, const T* dy, const T* x, Statistics<W> statistics,
                     const DxTerms<W>* terms, PerChannel<W> gamma, PerChannel<W> beta, int64_t N,
                     int64_t C) {
  constexpr int channels = lane_channels<T>;
  const int64_t first = first_channel<T>();
  if (first >= C) return;
  const LaneMap<T> map(statistics, gamma, beta, first, C);
  DxTerms<W> of_channel[channels] = {};
  for (int k = 0; terms && k < channels && first + k < C; ++k) of_channel[k] = terms[first + k];
  for_each_row(N, [&](int64_t n) {
    const auto dys = load_channels<width>(dy, n, first, C),
               xs = x ? load_channels<width>(x, n, first, C) : dys;
    LaneChannels<T> result;
    if constexpr (accumulate) result = load_channels<width>(dx, n, first, C);
    for (int k = 0; k < channels; ++k) {
      const W d = dz_of<is_relu>(map, k, xs.values[k], dys.values[k]) * map.gamma[k];
      store(result.values[k], map.standardized[k].backward(xs.values[k], d, of_channel[k]),
            std::bool_constant<accumulate>{});
    }
    store_channels<width>(dx, n, first, C, result);
  });
}

// The blocks for all rows, each of which takes several if there are enough to fill the device.
template <class T>
Grid grid_over_rows(const Grouping& at) {
  const int64_t columns = ceil_div(at.C, int64_t{lanes * lane_channels<T>}),
                most = std::max<int64_t>(1, 8 * context().multiprocessors() / columns);
  return {dim3(static_cast<unsigned>(columns),
               static_cast<unsigned>(std::min(ceil_div(at.N, int64_t{row_step}), most))),
          block_threads};
}

template <class Body>
void with_relu(Activation activation, const Body& body) {
  if (activation == Activation::relu) body(std::true_type{});
  else body(std::false_type{});
}

}  // namespace

void column_moments(View mean, View spread, Spread kind, View x, const Grouping& at, double eps,
                    const Running& running, View scratch) {
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const MomentsOut<W> out(mean, spread, kind, at, eps, running);
        with_width<T>(at.C, {x.data}, [&](auto width) {
          enqueue(Grid{blocks_of(ChannelPieces(at.N, at.C, 1, x.dtype))},
                  column_moments_kernel<width.value, T>, out, scratch.as<W>(), x.as<const T>(),
                  at.N, at.C);
        });
      });
}

void normalize_columns(View values, View x, const Normalizer& by, const AffineMap& map,
                       bool backward) {
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const auto launch = [&]<bool is_backward, class F>(std::bool_constant<is_backward>, F f) {
          with_width<T>(by.at.C, {values.data, x.data}, [&](auto width) {
            enqueue(grid_over_rows<T>(by.at),
                    normalize_columns_kernel<is_backward, width.value, F, T>, values.as<T>(),
                    x.as<const T>(), by.statistics<W>(), PerChannel<W>(map.gamma, 1),
                    PerChannel<W>(map.beta, 0), f, by.at.N, by.at.C);
          });
        };
        with_formula(map.activation, [&]<class F>(F f) {
          if (!backward) return launch(std::false_type{}, f);
          if constexpr (!std::is_same_v<F, formula::Unchanged>) launch(std::true_type{}, f);
        });
      });
}

void column_dx_terms(View terms, const AffineTargets& to, View dy, View x, const Normalizer& by,
                     const AffineMap& map, int64_t elements, View scratch) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const FinishColumn<T> out{Finish<T>(by, map, to, elements),
                                  static_cast<DxTerms<W>*>(terms.data)};
        with_relu(map.activation, [&](auto is_relu) {
          const DxSums<is_relu.value, T> sums{dy.as<const T>(), x.as<const T>(), by.statistics<W>(),
                                              PerChannel<W>(map.gamma, 1),
                                              PerChannel<W>(map.beta, 0)};
          row_sums<T, 2>(out, scratch, sums, by.at.N, by.at.C, by.at.C, {dy.data, x.data});
        });
      });
}

void columns_backward(GradTarget dx, const AffineTargets& to, View dy, View x, const Normalizer& by,
                      const AffineMap& map, View given, View scratch) {
  const Grouping& at = by.at;
  const bool measured = by.source == Source::batch;
  View terms = given;
  if (measured && !given.data) {
    const int64_t partials = 2 * column_pieces(at, dy.dtype) * at.C;
    terms.data = static_cast<std::byte*>(scratch.data) + partials * int64_t(size_of(scratch.dtype));
    column_dx_terms(terms, to, dy, x, by, map, at.elements(), scratch);
  }
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const T* const in_x = measured ? x.as<const T>() : nullptr;
        with_relu(map.activation, [&](auto is_relu) {
          with_beta(dx.beta, [&](auto accumulate) {
            with_width<T>(at.C, {dx.grad.data, dy.data, x.data}, [&](auto width) {
              enqueue(grid_over_rows<T>(at),
                      column_dx_kernel<width.value, accumulate.value, is_relu.value, T>,
                      dx.grad.as<T>(), dy.as<const T>(), in_x, by.statistics<W>(),
                      static_cast<const DxTerms<W>*>(terms.data), PerChannel<W>(map.gamma, 1),
                      PerChannel<W>(map.beta, 0), at.N, at.C);
            });
          });
        });
      });
}

}  // namespace accrue::cuda
