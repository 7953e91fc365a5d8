#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/norm_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// All four norms are the same kernels: they differ in which elements of x share a mean, a *group*
// (kernels/detail/norm_kernels.h). Seen as [N, G, K, S], x has in each of N samples G groups of K
// channels of S elements. A group of layer, group or instance norm is one run of K * S elements;
// one of batch norm (K = 1) has such a run in every sample.
//
// Memory is read by vectors of `width` elements: neighbours in a channel, or where S = 1 (layer
// norm) in neighbouring channels. Below, K and S count vectors.
//
// The threads that work on one group are its team: a warp for a group of up to small_group
// elements, eight of them a block; else a whole block, a large one, because batch norm has few
// groups.
constexpr int64_t small_group = 1024;
constexpr int large_team = 512;

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
};

// How a team goes through a group: its steps have the same digits in every group, so that the host
// divides for them.
template <int team>
struct Path : Layout {
  int64_t size;  // vectors of a group, in all its runs
  int64_t gap;   // vectors of x from one run's end to the next one's start
  int64_t step;  // vectors of x that `team` of the group span, unless k carries
  int dk, ds;    // digits of team

  Path(const Grouping& at, int width)
      : Layout(at, width),
        size(at.runs() * K * S),
        gap(at.over == Grouping::Over::batch ? (G - 1) * K * S : 0),
        step(team + team / S / K * gap),
        dk(static_cast<int>(team / S % K)),
        ds(static_cast<int>(team % S)) {}
};

// A thread's way through the vectors of a group: member r of a team has vectors r, r + team,
// r + 2 team, ..., so that a warp reads contiguous memory. Vector i of the group is (n, k, s) in
// [runs, K, S]. These digits are carried from one to the next by addition, n in the place in x,
// because divisions for each vector would cost more than the arithmetic on its elements. For each
// group they would, too: a thread makes one Walk and takes copies of it.
template <int team>
struct Walk {
  const Path<team>& x;
  int64_t i, k, s;
  int64_t vector;   // its number in x
  int64_t channel;  // the group's first, in units of x.channels

  // In a group that starts at 0.
  __device__ explicit Walk(const Path<team>& x) : x(x) {
    // A divisor above `team` gives what `team` gives: 32 bits suffice.
    const unsigned r = threadIdx.x % team, S = at_most_team(x.S), K = at_most_team(x.K);
    i = r, k = r / S % K, s = r % S;
    vector = r + r / S / K * x.gap;
    channel = 0;
  }

  __device__ Walk in_group(int64_t group) const {
    Walk walk = *this;
    walk.vector += group * x.K * x.S;
    walk.channel = x.G == 1 ? 0 : group % x.G * x.K;
    return walk;
  }
  __device__ bool inside() const { return i < x.size; }
  __device__ void next() {
    i += team, vector += x.step, k += x.dk, s += x.ds;
    if (s >= x.S) s -= x.S, ++k;
    if (k >= x.K) k -= x.K, vector += x.gap;
  }
  // The channel of its element w.
  __device__ int64_t channel_of(int w) const {
    const int64_t c = (channel + k) * x.channels;
    return x.channels == 1 ? c : c + w;
  }

 private:
  __device__ static unsigned at_most_team(int64_t n) {
    return n < team ? static_cast<unsigned>(n) : team;
  }
};

// The sum over a team, in each of its threads; all of them must call it.
template <int team, class T>
__device__ T team_sum(T value) {
  if constexpr (team == warp_threads) return warp_sum(value);
  else return block_sum<team>(value);
}

template <class T>
struct RunningPointers {
  T *mean, *var;
  double momentum;
};

// mean and rstd = 1 / sqrt(variance + eps) of each group, by its team. Two passes: the squares are
// summed around the mean, because the difference of two large sums would lose the variance's
// digits. The second pass finds a small group in the cache.
template <int team, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    moments_kernel(W* mean, W* rstd, const T* x, Path<team> in, int64_t groups, int64_t elements,
                   double eps, RunningPointers<W> running) {
  // Copied before its elements are read: that makes one load of it, not `width`.
  using Values = Vector<T, width>;
  const auto* vectors = reinterpret_cast<const Values*>(x);
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team) {
    // 1. Each thread sums its vectors, the team the threads' sums.
    RunningSum<W> sum;
    for (Walk<team> at = start.in_group(g); at.inside(); at.next()) {
      const Values values = vectors[at.vector];
      W of_vector = 0;
      for (const T value : values.values) of_vector += value;
      sum.add(of_vector);
    }
    const W center = team_sum<team>(sum.total()) / static_cast<W>(elements);
    // 2. Sum the squared distances from the mean in the same way.
    RunningSum<W> squares;
    for (Walk<team> at = start.in_group(g); at.inside(); at.next()) {
      const Values values = vectors[at.vector];
      W of_vector = 0;
      for (const T value : values.values) of_vector += (value - center) * (value - center);
      squares.add(of_vector);
    }
    const W deviations = team_sum<team>(squares.total());
    // 3. Every thread has both sums; one writes what follows from them.
    if (threadIdx.x % team != 0) continue;
    mean[g] = center;
    rstd[g] = rstd_of(deviations / static_cast<W>(elements), eps);
    if (!running.mean) continue;
    move_towards(center, running.mean[g], running.momentum);
    move_towards(deviations / static_cast<W>(elements - 1), running.var[g], running.momentum);
  }
}

// The moments that evaluation normalises by. A thread per group.
template <class T>
__global__ void __launch_bounds__(block_threads)
    given_moments_kernel(T* mean, T* rstd, const T* given_mean, const T* given_var, int64_t groups,
                         double eps) {
  for (int64_t g = first_item(); g < groups; g += item_stride()) {
    mean[g] = given_mean[g];
    rstd[g] = rstd_of(given_var[g], eps);
  }
}

// With z = (x - mean) * rstd * gamma + beta, values = act(z), or backward values = values *
// act'(z). The moments are known, so that no thread needs another one: each has vectors a grid
// apart, in whatever groups they lie. Teams would leave multiprocessors idle where groups are few
// and large.
template <bool backward, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    normalize_kernel(T* values, const T* x, const W* mean, const W* rstd, PerChannel<W> gamma,
                     PerChannel<W> beta, Activation activation, Layout in) {
  const int64_t N = in.N, G = in.G, K = in.K, S = in.S;
  // Vector v is (n, g, k, s) in [N, G, K, S]. Divided once and then carried, as in Walk.
  int64_t v = first_item();
  int64_t n = v / S / K / G, g = v / S / K % G, k = v / S % K, s = v % S;
  const int64_t stride = item_stride();
  const int64_t dn = stride / S / K / G, dg = stride / S / K % G, dk = stride / S % K,
                ds = stride % S;
  for (; v < N * G * K * S; v += stride) {
    const int64_t group = in.over == Grouping::Over::batch ? g : n * G + g;
    const int64_t c = (g * K + k) * in.channels;
    const Standardized<W> standardized{mean[group], rstd[group]};
    const auto xs = reinterpret_cast<const Vector<T, width>*>(x)[v];
    auto& place = reinterpret_cast<Vector<T, width>*>(values)[v];
    Vector<T, width> out;
    if constexpr (backward) out = place;
    for (int w = 0; w < width; ++w) {
      T& value = out.values[w];
      const int64_t channel = in.channels == 1 ? c : c + w;
      const W z = standardized(xs.values[w]) * gamma[channel] + beta[channel];
      const T y = T(activate(activation, z));
      if constexpr (backward) value = T(activate_backward(activation, widen(value), widen(y)));
      else value = y;
    }
    place = out;
    n += dn, g += dg, k += dk, s += ds;
    if (s >= S) s -= S, ++k;
    if (k >= K) k -= K, ++g;
    if (g >= G) g -= G, ++n;
  }
}

// dx of each group, by its team. With d = gamma * dy,
//   dx = rstd * (d - average(d) - (x - mean) * slope)      slope = rstd^2 * average(d * (x - mean))
// hence one pass for the two averages and one that writes, which finds a small group in the cache.
// Given moments do not depend on x: both averages are 0, and x is not read. dx may be dy, because a
// group's averages are complete before its first element is written, and then each element is read
// before it is written by the same thread.
template <int team, int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    norm_backward_kernel(T* dx, const T* dy, const T* x, const W* mean, const W* rstd,
                         PerChannel<W> gamma, Path<team> in, int64_t groups, int64_t elements,
                         Source source) {
  using Values = Vector<T, width>;
  const auto* dy_vectors = reinterpret_cast<const Values*>(dy);
  const auto* x_vectors = reinterpret_cast<const Values*>(x);
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team) {
    const Standardized<W> standardized{mean[g], rstd[g]};
    W average = 0, slope = 0;
    // 1. The averages of d and of d * (x - mean).
    if (source == Source::batch) {
      RunningSum<W> sum, product;
      for (Walk<team> at = start.in_group(g); at.inside(); at.next()) {
        const Values dys = dy_vectors[at.vector], xs = x_vectors[at.vector];
        W d[width], sum_of_vector = 0, product_of_vector = 0;
        for (int w = 0; w < width; ++w) d[w] = dys.values[w] * gamma[at.channel_of(w)];
        for (int w = 0; w < width; ++w) {
          sum_of_vector += d[w];
          product_of_vector += d[w] * (xs.values[w] - standardized.mean);
        }
        sum.add(sum_of_vector);
        product.add(product_of_vector);
      }
      average = team_sum<team>(sum.total()) / static_cast<W>(elements);
      slope = standardized.rstd * standardized.rstd *
              (team_sum<team>(product.total()) / static_cast<W>(elements));
    }
    // 2. dx.
    for (Walk<team> at = start.in_group(g); at.inside(); at.next()) {
      const Values dys = dy_vectors[at.vector];
      const Values xs = source == Source::batch ? x_vectors[at.vector] : dys;
      Values& out = reinterpret_cast<Values*>(dx)[at.vector];
      Values result;
      if constexpr (accumulate) result = out;
      W d[width];
      for (int w = 0; w < width; ++w) d[w] = dys.values[w] * gamma[at.channel_of(w)];
      for (int w = 0; w < width; ++w)
        store(result.values[w], standardized.backward(xs.values[w], d[w], average, slope),
              std::bool_constant<accumulate>{});
      out = result;
    }
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
                    x.as<const T>(), Path<team.value>(at, width.value), at.count(), at.elements(),
                    eps, moved);
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

namespace {

template <bool backward>
void enqueue_normalize(View values, View x, const Normalizer& by, View gamma, View beta,
                       Activation activation) {
  if (x.numel() == 0) return;
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        with_width<T>(run_of(by.at), {values.data, x.data}, [&](auto width) {
          enqueue(grid_over(x.numel() / width.value), normalize_kernel<backward, width.value, T>,
                  values.as<T>(), x.as<const T>(), by.mean.as<const W>(), by.rstd.as<const W>(),
                  PerChannel<W>(gamma, 1), PerChannel<W>(beta, 0), activation,
                  Layout(by.at, width.value));
        });
      });
}

}  // namespace

void normalize(View y, View x, Normalizer by, View gamma, View beta, Activation activation) {
  enqueue_normalize<false>(y, x, by, gamma, beta, activation);
}

void normalized_backward_over(View dy, View x, Normalizer by, View gamma, View beta,
                              Activation activation) {
  enqueue_normalize<true>(dy, x, by, gamma, beta, activation);
}

void norm_backward(GradTarget dx, View dy, View x, Normalizer by, View gamma) {
  if (dy.numel() == 0) return;
  const Grouping& at = by.at;
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        with_width<T>(run_of(at), {dx.grad.data, dy.data, x.data}, [&](auto width) {
          with_team(at, [&](auto team, const auto& grid) {
            with_beta(dx.beta, [&](auto accumulate) {
              enqueue(grid, norm_backward_kernel<team.value, width.value, accumulate.value, T>,
                      dx.grad.as<T>(), dy.as<const T>(), static_cast<const T*>(x.data),
                      by.mean.as<const W>(), by.rstd.as<const W>(), PerChannel<W>(gamma, 1),
                      Path<team.value>(at, width.value), at.count(), at.elements(), by.source);
            });
          });
        });
      });
}

}  // namespace accrue::cuda
