#include "kernels/elementwise.cuh"
#include "kernels/norm_kernels.h"
#include "kernels/reduce.cuh"

namespace accrue::cuda {
namespace {

// A group up to small_group elements is worked on by a warp, of which eight make a block; a larger
// one by a whole block, a large one because batch norm has few groups.
constexpr int64_t small_group = 1024;
constexpr int large_team = 512;

// x as [N, G, K, S] of vectors: G groups of K channels to a sample. A vector is neighbouring
// elements of one channel, or with S = 1 of neighbouring channels of one group.
struct Layout {
  int64_t N, G, K, S;
  int channels;  // in a vector
  Grouping::Over over;

  Layout(const Grouping& at, int width)
      : N(at.N),
        G(at.per_sample()),
        K(at.K),
        S(at.S),
        channels(at.S == 1 ? width : 1),
        over(at.over) {
    (at.S == 1 ? K : S) /= width;
  }

  __device__ int64_t group_of(int64_t n, int64_t g) const {
    return over == Grouping::Over::batch ? g : n * G + g;
  }
};

// Digits of a vector's number in such a layout. A thread goes from vector to vector by adding the
// digits of its stride, because divisions would cost more than the arithmetic on the elements.
struct Place {
  int64_t n, g, k, s;

  __device__ Place(int64_t i, int64_t G, int64_t K, int64_t S)
      : n(i / S / K / G), g(i / S / K % G), k(i / S % K), s(i % S) {}

  __device__ void advance(const Place& by, int64_t G, int64_t K, int64_t S) {
    n += by.n, g += by.g, k += by.k, s += by.s;
    if (s >= S) s -= S, ++k;
    if (k >= K) k -= K, ++g;
    if (g >= G) g -= G, ++n;
  }
};

// Calls body(vector, first channel) for those vectors of a group that a member of its team has:
// every `team`-th, so that a warp's accesses are contiguous within a channel.
template <int team, class Body>
__device__ void for_each_vector(const Layout& in, int64_t group, Body body) {
  const bool over_batch = in.over == Grouping::Over::batch;
  const int64_t size = (over_batch ? in.N : 1) * in.K * in.S, first = group * in.K * in.S;
  const int64_t channel = group % in.G * in.K;
  const Place step(team, 1, in.K, in.S);
  const int64_t rank = threadIdx.x % team;
  Place at(rank, 1, in.K, in.S);
  for (int64_t i = rank; i < size; i += team, at.advance(step, 1, in.K, in.S))
    body(first + (at.n * in.G * in.K + at.k) * in.S + at.s, (channel + at.k) * in.channels);
}

// Every thread of the team must call it.
template <int team, class T>
__device__ T team_sum(T value) {
  if constexpr (team == warp_threads) return warp_sum(value);
  else return block_sum<team>(value);
}

template <int team>
__device__ int64_t first_group() {
  return first_item() / team;
}
template <int team>
__device__ int64_t group_stride() {
  return item_stride() / team;
}

template <class T>
struct RunningPointers {
  T *mean, *var;
  double momentum;
};

// A team per group. The second read, of squares around the mean, finds the group in the cache.
template <int team, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    moments_kernel(W* mean, W* rstd, const T* x, Layout in, int64_t groups, int64_t elements,
                   double eps, RunningPointers<W> running) {
  const auto* vectors = reinterpret_cast<const Vector<T, width>*>(x);
  for (int64_t g = first_group<team>(); g < groups; g += group_stride<team>()) {
    RunningSum<W> sum, squares;
    for_each_vector<team>(in, g, [&](int64_t v, int64_t) {
      W of_vector = 0;
      for (const T value : vectors[v].values) of_vector += value;
      sum.add(of_vector);
    });
    const W center = team_sum<team>(sum.total()) / static_cast<W>(elements);
    for_each_vector<team>(in, g, [&](int64_t v, int64_t) {
      W of_vector = 0;
      for (const T value : vectors[v].values) of_vector += (value - center) * (value - center);
      squares.add(of_vector);
    });
    const W deviations = team_sum<team>(squares.total());
    if (threadIdx.x % team != 0) continue;
    mean[g] = center;
    rstd[g] = rstd_of(deviations / static_cast<W>(elements), eps);
    if (!running.mean) continue;
    move_towards(center, running.mean[g], running.momentum);
    move_towards(deviations / static_cast<W>(elements - 1), running.var[g], running.momentum);
  }
}

// A thread per group.
template <class T>
__global__ void __launch_bounds__(block_threads)
    given_moments_kernel(T* mean, T* rstd, const T* given_mean, const T* given_var, int64_t groups,
                         double eps) {
  for (int64_t g = first_item(); g < groups; g += item_stride()) {
    mean[g] = given_mean[g];
    rstd[g] = rstd_of(given_var[g], eps);
  }
}

// A thread has whole vectors, a grid apart. Groups play no part in the mapping: few large ones
// would leave multiprocessors idle.
template <int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    normalize_kernel(T* y, const T* x, const W* mean, const W* rstd, PerChannel<W> gamma,
                     PerChannel<W> beta, Layout in) {
  const int64_t size = in.N * in.G * in.K * in.S;
  const Place step(item_stride(), in.G, in.K, in.S);
  Place at(first_item(), in.G, in.K, in.S);
  for (int64_t v = first_item(); v < size; v += item_stride(), at.advance(step, in.G, in.K, in.S)) {
    const int64_t g = in.group_of(at.n, at.g), c = (at.g * in.K + at.k) * in.channels;
    const Standardized<W> standardized{mean[g], rstd[g]};
    auto values = reinterpret_cast<const Vector<T, width>*>(x)[v];
    for (int w = 0; w < width; ++w) {
      T& value = values.values[w];
      const int64_t channel = in.channels == 1 ? c : c + w;
      value = T(standardized(value) * gamma[channel] + beta[channel]);
    }
    reinterpret_cast<Vector<T, width>*>(y)[v] = values;
  }
}

// A team per group: two sums, then dx, for which it finds the group in the cache. dx may be dy: a
// group's sums are complete before its first element is written.
template <int team, int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    norm_backward_kernel(T* dx, const T* dy, const T* x, const W* mean, const W* rstd,
                         PerChannel<W> gamma, Layout in, int64_t groups, int64_t elements,
                         Source source) {
  using Values = Vector<T, width>;
  const auto* dy_vectors = reinterpret_cast<const Values*>(dy);
  const auto* x_vectors = reinterpret_cast<const Values*>(x);
  const auto gamma_dy = [&](int64_t v, int64_t c) {
    const Values values = dy_vectors[v];
    Vector<W, width> products;
    for (int w = 0; w < width; ++w)
      products.values[w] = values.values[w] * gamma[in.channels == 1 ? c : c + w];
    return products;
  };
  for (int64_t g = first_group<team>(); g < groups; g += group_stride<team>()) {
    const Standardized<W> standardized{mean[g], rstd[g]};
    W average = 0, slope = 0;
    if (source == Source::batch) {
      RunningSum<W> sum, product;
      for_each_vector<team>(in, g, [&](int64_t v, int64_t c) {
        const auto d = gamma_dy(v, c);
        const Values values = x_vectors[v];
        W sum_of_vector = 0, product_of_vector = 0;
        for (int w = 0; w < width; ++w) {
          sum_of_vector += d.values[w];
          product_of_vector += d.values[w] * (values.values[w] - standardized.mean);
        }
        sum.add(sum_of_vector);
        product.add(product_of_vector);
      });
      average = team_sum<team>(sum.total()) / static_cast<W>(elements);
      slope = standardized.rstd * standardized.rstd *
              (team_sum<team>(product.total()) / static_cast<W>(elements));
    }
    for_each_vector<team>(in, g, [&](int64_t v, int64_t c) {
      const auto d = gamma_dy(v, c);
      const Values values = x_vectors[v];
      auto& out = reinterpret_cast<Values*>(dx)[v];
      Values result;
      if constexpr (accumulate) result = out;
      for (int w = 0; w < width; ++w)
        store(result.values[w],
              standardized.backward(values.values[w], d.values[w], average, slope),
              std::bool_constant<accumulate>{});
      out = result;
    });
  }
}

// Consecutive elements of which vectors may be made without leaving a group, and with S > 1 a
// channel.
int64_t run_of(const Grouping& at) { return at.S == 1 ? at.K : at.S; }

// Calls body with the threads that work on one group, and the grid for all.
template <class Body>
void with_team(const Grouping& at, Body&& body) {
  if (at.elements() <= small_group) {
    body(std::integral_constant<int, warp_threads>{}, grid_over(at.count() * warp_threads));
  } else {
    const int64_t most = int64_t{4} * context().multiprocessors();
    const auto blocks = static_cast<unsigned>(std::min(at.count(), most));
    body(std::integral_constant<int, large_team>{}, Grid{dim3(blocks), large_team});
  }
}

}  // namespace

void group_moments(View mean, View rstd, View x, Grouping at, double eps, Running running) {
  if (at.count() == 0) return;
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        RunningPointers<W> moved{nullptr, nullptr, running.momentum};
        if (running.mean.data) moved.mean = running.mean.as<W>(), moved.var = running.var.as<W>();
        with_width<T>(run_of(at), {x.data}, [&](auto width) {
          with_team(at, [&](auto team, const auto& grid) {
            enqueue(grid, moments_kernel<team.value, width.value, T>, mean.as<W>(), rstd.as<W>(),
                    x.as<const T>(), Layout(at, width.value), at.count(), at.elements(), eps,
                    moved);
          });
        });
      });
}

void given_moments(View mean, View rstd, View given_mean, View given_var, double eps) {
  dispatch_wide(mean.dtype, [&]<class T>() {
    enqueue(grid_over(mean.numel()), given_moments_kernel<T>, mean.as<T>(), rstd.as<T>(),
            given_mean.as<const T>(), given_var.as<const T>(), mean.numel(), eps);
  });
}

void normalize(View y, View x, Normalization by, View gamma, View beta) {
  if (x.numel() == 0) return;
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        with_width<T>(run_of(by.at), {y.data, x.data}, [&](auto width) {
          enqueue(grid_over(x.numel() / width.value), normalize_kernel<width.value, T>, y.as<T>(),
                  x.as<const T>(), by.mean.as<const W>(), by.rstd.as<const W>(),
                  PerChannel<W>(gamma, 1), PerChannel<W>(beta, 0), Layout(by.at, width.value));
        });
      });
}

void norm_backward(GradTarget dx, View dy, View x, Normalization by, View gamma) {
  if (x.numel() == 0) return;
  const Grouping& at = by.at;
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        with_width<T>(run_of(at), {dx.grad.data, dy.data, x.data}, [&](auto width) {
          with_team(at, [&](auto team, const auto& grid) {
            with_beta(dx.beta, [&](auto accumulate) {
              enqueue(grid, norm_backward_kernel<team.value, width.value, accumulate.value, T>,
                      dx.grad.as<T>(), dy.as<const T>(), x.as<const T>(), by.mean.as<const W>(),
                      by.rstd.as<const W>(), PerChannel<W>(gamma, 1), Layout(at, width.value),
                      at.count(), at.elements(), by.source);
            });
          });
        });
      });
}

}  // namespace accrue::cuda
