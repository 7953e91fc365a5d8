#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/norm_columns.h"
#include "kernels/detail/norm_finish.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// All norms use the same kernels, but norms of columns (kernels/norm_columns.cu). They differ in
// the elements of x that share a mean, a *group* (kernels/detail/norm_kernels.h). Seen as [N, G, K,
// S], each of x's N samples has G groups of K channels of S elements. A group of layer, group or
// instance norm is one run of K * S elements. A group of batch norm (K = 1) has one such run in
// every sample.
//
// The kernels read memory in vectors of `width` elements, which are neighbours in a channel or, if
// S = 1 (layer norm), lie in neighbouring channels. Below, K and S count vectors.
//
// The threads that work on one group are its team. A group of up to small_group elements has a
// warp, and eight warps form a block. A larger group has a whole block. If large groups are few, a
// group has several blocks, and the last block combines their results.
constexpr int64_t small_group = 1024;
constexpr int large_team = 512;
static_assert(most_pieces <= large_team);

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

// The path of a team through a group. The steps have the same digits in every group, so the host
// computes them, with its divisions.
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

// The walk of a thread through the vectors of a group: member r of a team takes vectors r, r +
// team, r + 2 team, ..., so a warp reads contiguous memory. Vector i of the group is (n, k, s) in
// [runs, K, S]. The walk updates these digits by addition with carry (n only as part of the place
// in x), because divisions for each vector would cost more than the arithmetic on its elements.
// Divisions for each group would cost too much as well: a thread makes one Walk and copies it.
template <int team>
struct Walk {
  const Path<team>& x;
  int64_t i, end, k, s;
  int64_t vector;   // its number in x
  int64_t channel;  // the group's first, in units of x.channels

  // Walks through a group that starts at 0: all of it, or [begin, end).
  __device__ explicit Walk(const Path<team>& x) : x(x), end(x.size) {
    // A divisor above `team` gives the same result as `team`, so 32 bits suffice.
    const unsigned r = threadIdx.x % team, S = at_most_team(x.S), K = at_most_team(x.K);
    i = r, k = r / S % K, s = r % S;
    vector = r + r / S / K * x.gap;
    channel = 0;
  }
  __device__ Walk(const Path<team>& x, int64_t begin, int64_t end) : x(x), end(end) {
    i = begin + threadIdx.x % team, k = i / x.S % x.K, s = i % x.S;
    vector = i + i / x.S / x.K * x.gap;
    channel = 0;
  }

  __device__ Walk in_group(int64_t group) const {
    Walk walk = *this;
    walk.vector += group * x.K * x.S;
    walk.channel = x.G == 1 ? 0 : group % x.G * x.K;
    return walk;
  }
  __device__ bool inside() const { return i < end; }
  __device__ void next() {
    i += team, vector += x.step, k += x.dk, s += x.ds;
    if (s >= x.S) s -= x.S, ++k;
    if (k >= x.K) k -= x.K, vector += x.gap;
  }
  // The channel of the vector's element w.
  __device__ int64_t channel_of(int w) const {
    const int64_t c = (channel + k) * x.channels;
    return x.channels == 1 ? c : c + w;
  }

 private:
  __device__ static unsigned at_most_team(int64_t n) {
    return n < team ? static_cast<unsigned>(n) : team;
  }
};

// Returns the sum over a team to each of its threads, which must all call this.
template <int team, class T>
__device__ T team_sum(T value) {
  if constexpr (team == warp_threads) return warp_sum(value);
  else return block_sum<team>(value);
}

// The sum of a team's elements. A vector is copied before its elements are read, which makes one
// load instead of `width` loads.
template <int width, int team, class T, class W = Wide<T>>
__device__ W sum_of(const T* x, Walk<team> at) {
  RunningSum<W> sum;
  for (; at.inside(); at.next()) {
    const auto values = load_vector<width>(x, at.vector);
    W of_vector = 0;
    for (const T value : values.values) of_vector += value;
    sum.add(of_vector);
  }
  return team_sum<team>(sum.total());
}

// The sum of the elements' squared distances from `center`.
template <int width, int team, class T, class W = Wide<T>>
__device__ W deviations_of(const T* x, Walk<team> at, W center) {
  RunningSum<W> squares;
  for (; at.inside(); at.next()) {
    const auto values = load_vector<width>(x, at.vector);
    W of_vector = 0;
    for (const T value : values.values) of_vector += (value - center) * (value - center);
    squares.add(of_vector);
  }
  return team_sum<team>(squares.total());
}

// A team computes the moments of its group in two passes. The squares are summed around the mean,
// because the difference of two large sums would lose the variance's digits. The second pass finds
// a small group in the cache. Every thread gets the moments; one thread stores them.
template <int team, int width, class T, class W = Wide<T>>
__device__ Standardized<W> measure_group(const MomentsOut<W>& out, const T* x,
                                         const Walk<team>& start, int64_t g) {
  const Walk<team> at = start.in_group(g);
  const W center = out.mean ? sum_of<width>(x, at) / static_cast<W>(out.elements) : W(0);
  const W deviations = deviations_of<width>(x, at, center);
  if (threadIdx.x % team == 0) out.store(g, center, deviations);
  return {center, out.rstd(deviations)};
}

template <int team, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    moments_kernel(MomentsOut<W> out, const T* x, Path<team> in, int64_t groups) {
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team)
    measure_group<team, width>(out, x, start, g);
}

// values = f(z) of a vector, or in backward values = values * f'(z). Where the vector has one
// channel, its gamma and beta are read once.
template <bool backward, int width, class T, class F, class At, class W = Wide<T>>
__device__ void normalize_vector(Vector<T, width>& values, const Vector<T, width>& xs, F f,
                                 const At& at, const Standardized<W>& standardized,
                                 const PerChannel<W>& gammas, const PerChannel<W>& betas) {
  const auto update = [&](int w, W gamma, W beta) {
    T& value = values.values[w];
    const T y = T(f(standardized(xs.values[w]) * gamma + beta));
    if constexpr (backward) value = T(formula::Backward<F>{f}(widen(value), widen(y)));
    else value = y;
  };
  if (at.x.channels == 1) {
    const int64_t c = at.channel_of(0);
    const W gamma = gammas[c], beta = betas[c];
    for (int w = 0; w < width; ++w) update(w, gamma, beta);
  } else {
    for (int w = 0; w < width; ++w) update(w, gammas[at.channel_of(w)], betas[at.channel_of(w)]);
  }
}

// act(z) of vector v, or in backward what lies there times act'(z).
template <int width, bool backward = false, class T, class At, class W = Wide<T>>
__device__ void store_normalized(T* values, const T* x, int64_t v, const At& at,
                                 const Standardized<W>& standardized, const PerChannel<W>& gamma,
                                 const PerChannel<W>& beta, Activation activation) {
  const auto xs = load_vector<width>(x, v);
  Vector<T, width> out;
  if constexpr (backward) out = load_vector<width>(values, v);
  const auto update = [&](auto f) {
    normalize_vector<backward>(out, xs, f, at, standardized, gamma, beta);
  };
  switch (activation) {
    case Activation::none: update(formula::Unchanged{}); break;
    case Activation::relu: update(formula::Relu{}); break;
    case Activation::tanh: update(formula::Tanh{}); break;
  }
  store_vector(values, v, out);
}

// The same, and then y = act(z) as in normalize_kernel(), in a third pass over the group.
template <int team, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    norm_forward_kernel(T* y, MomentsOut<W> out, const T* x, PerChannel<W> gamma,
                        PerChannel<W> beta, Activation activation, Path<team> in, int64_t groups) {
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team) {
    const Standardized<W> standardized = measure_group<team, width>(out, x, start, g);
    for (Walk<team> at = start.in_group(g); at.inside(); at.next())
      store_normalized<width>(y, x, at.vector, at, standardized, gamma, beta, activation);
  }
}

// If groups are few and large, they are cut into pieces: block (g, p) has piece p of group g.
struct Piece {
  int64_t begin, end;  // in vectors of the group

  __device__ Piece(int64_t size, int64_t p, int64_t pieces)
      : begin(size * p / pieces), end(size * (p + 1) / pieces) {}
};

// Two numbers of each block, in the order of piece and group. One block has enough threads for one
// piece each.
template <class W>
struct OfBlocks {
  W first[most_pieces], second[most_pieces];
};

// Returns true in the last block that calls this; its `all` then has every block's numbers.
template <class W>
__device__ bool is_last_and_has_all(OfBlocks<W>& all, W* scratch, W first, W second) {
  const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) scratch[block] = first, scratch[blocks + block] = second;
  if (!is_last_block()) return false;
  if (threadIdx.x < blocks) {
    all.first[threadIdx.x] = __ldcg(&scratch[threadIdx.x]);
    all.second[threadIdx.x] = __ldcg(&scratch[blocks + threadIdx.x]);
  }
  __syncthreads();
  return true;
}

// Combines the moments of pieces, each computed by two passes as above, into the moments of groups.
// With the mean of all elements, deviations = sum over the pieces of (deviations + elements * (mean
// - mean of all)^2), which loses no digits. The pieces are added in order, so the bits do not
// depend on which block is last.
template <int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    piece_moments_kernel(MomentsOut<W> out, W* scratch, const T* x, Path<large_team> in) {
  __shared__ OfBlocks<W> all;
  const int64_t groups = gridDim.x, pieces = gridDim.y;
  const Piece piece(in.size, blockIdx.y, pieces);
  const Walk<large_team> at =
      Walk<large_team>(in, piece.begin, piece.end).in_group(int64_t{blockIdx.x});
  const auto elements = static_cast<W>((piece.end - piece.begin) * width);
  const W center = out.mean ? sum_of<width>(x, at) / elements : W(0);
  const W deviations = deviations_of<width>(x, at, center);
  if (!is_last_and_has_all(all, scratch, center, deviations)) return;
  const int64_t g = threadIdx.x;
  if (g >= groups) return;
  const auto elements_of = [&](int64_t p) {
    const Piece one(in.size, p, pieces);
    return static_cast<double>((one.end - one.begin) * width);
  };
  double mean = 0, sum = 0;
  for (int64_t p = 0; p < pieces; ++p) mean += elements_of(p) * all.first[p * groups + g];
  mean /= static_cast<double>(out.elements);
  for (int64_t p = 0; p < pieces; ++p) {
    const double away = all.first[p * groups + g] - mean;
    sum += all.second[p * groups + g] + elements_of(p) * away * away;
  }
  out.store(g, static_cast<W>(mean), static_cast<W>(sum));
}

// Computes the moments that evaluation normalises by. One thread per group.
template <class T>
__global__ void __launch_bounds__(block_threads)
    given_moments_kernel(T* mean, T* rstd, const T* given_mean, const T* given_var, int64_t groups,
                         double eps) {
  for (int64_t g = first_item(); g < groups; g += item_stride()) {
    mean[g] = given_mean[g];
    rstd[g] = rstd_of(given_var[g], eps);
  }
}

// The walk of a thread through all vectors of x, a grid apart, across groups. Vector v is (n, g, k,
// s) in [N, G, K, S]. The digits come from divisions once, then from additions with carry, as in
// Walk.
struct GridWalk {
  const Layout& x;
  int64_t v, n, g, k, s;
  const int64_t stride, dn, dg, dk, ds;

  __device__ explicit GridWalk(const Layout& x)
      : x(x),
        v(first_item()),
        n(v / x.S / x.K / x.G),
        g(v / x.S / x.K % x.G),
        k(v / x.S % x.K),
        s(v % x.S),
        stride(item_stride()),
        dn(stride / x.S / x.K / x.G),
        dg(stride / x.S / x.K % x.G),
        dk(stride / x.S % x.K),
        ds(stride % x.S) {}

  __device__ bool inside() const { return v < x.N * x.G * x.K * x.S; }
  __device__ void next() {
    v += stride, n += dn, g += dg, k += dk, s += ds;
    if (s >= x.S) s -= x.S, ++k;
    if (k >= x.K) k -= x.K, ++g;
    if (g >= x.G) g -= x.G, ++n;
  }
  __device__ int64_t group() const { return x.over == Grouping::Over::batch ? g : n * x.G + g; }
  // The channel of the vector's element w.
  __device__ int64_t channel_of(int w) const {
    const int64_t c = (g * x.K + k) * x.channels;
    return x.channels == 1 ? c : c + w;
  }
};

// With z = (x - mean) * rstd * gamma + beta, values = act(z), or in backward values = values *
// act'(z). The moments are known, so threads are independent. Teams would leave multiprocessors
// idle if groups are few and large.
template <bool backward, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    normalize_kernel(T* values, const T* x, Statistics<W> statistics, PerChannel<W> gamma,
                     PerChannel<W> beta, Activation activation, Layout in) {
  for (GridWalk at(in); at.inside(); at.next())
    store_normalized<width, backward>(values, x, at.v, at, statistics[at.group()], gamma, beta,
                                      activation);
}

// d[w] = dz of a vector's element w times the factor of its channel. Where the vector has one
// channel, what belongs to that is read once. Vectors of several channels are layer norm's, which
// has no relu.
template <int width, class T, class W, class At>
__device__ void weigh(W (&d)[width], const Vector<T, width>& dys, const Vector<T, width>& xs,
                      const At& at, const Standardized<W>& standardized,
                      const PerChannel<W>& factors, const ThroughRelu<T>& through) {
  if (at.x.channels > 1) {
    for (int w = 0; w < width; ++w) d[w] = dys.values[w] * factors[at.channel_of(w)];
    return;
  }
  const int64_t c = at.channel_of(0);
  const W factor = factors[c];
  if (through.is_relu) {
    const W gamma = through.gamma[c], beta = through.beta[c];
    for (int w = 0; w < width; ++w)
      d[w] = through.dz(standardized, xs.values[w], dys.values[w], gamma, beta) * factor;
  } else {
    for (int w = 0; w < width; ++w) d[w] = dys.values[w] * factor;
  }
}

// Computes the two sums over a team that DxTerms needs, of dz times the factor of each channel.
template <int width, int team, class T, class W>
__device__ void sum_for_dx(W& sum, W& product, const T* dy, const T* x,
                           const Standardized<W>& standardized, const PerChannel<W>& factors,
                           const ThroughRelu<T>& through, Walk<team> at) {
  RunningSum<W> sums, products;
  for (; at.inside(); at.next()) {
    const auto dys = load_vector<width>(dy, at.vector), xs = load_vector<width>(x, at.vector);
    W d[width], sum_of_vector = 0, product_of_vector = 0;
    weigh(d, dys, xs, at, standardized, factors, through);
    for (int w = 0; w < width; ++w) {
      sum_of_vector += d[w];
      product_of_vector += d[w] * (xs.values[w] - standardized.mean);
    }
    sums.add(sum_of_vector);
    products.add(product_of_vector);
  }
  sum = team_sum<team>(sums.total());
  product = team_sum<team>(products.total());
}

// dx of vector v. dx may be dy: each element is read before it is written by the same thread.
template <int width, bool accumulate, class T, class W, class At>
__device__ void store_dx(T* dx, const T* dy, const T* x, int64_t v, const At& at,
                         const Standardized<W>& standardized, const DxTerms<W>& terms,
                         const ThroughRelu<T>& through) {
  const auto dys = load_vector<width>(dy, v), xs = x ? load_vector<width>(x, v) : dys;
  Vector<T, width> result;
  if constexpr (accumulate) result = load_vector<width>(dx, v);
  W d[width];
  weigh(d, dys, xs, at, standardized, through.gamma, through);
  for (int w = 0; w < width; ++w)
    store(result.values[w], standardized.backward(xs.values[w], d[w], terms),
          std::bool_constant<accumulate>{});
  store_vector(dx, v, result);
}

// A team computes dx of its group. The second pass finds a small group in the cache. dx may be dy,
// because a group's averages are complete before its first element is written.
template <int team, int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    norm_backward_kernel(T* dx, const T* dy, const T* x, Finish<T> finish, Path<team> in,
                         int64_t groups) {
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team) {
    const Standardized<W> standardized = finish.statistics[g];
    W sum, product;
    sum_for_dx<width>(sum, product, dy, x, standardized, finish.factors(), finish.through,
                      start.in_group(g));
    const auto terms = finish(g, sum, product, threadIdx.x % team == 0);
    for (Walk<team> at = start.in_group(g); at.inside(); at.next())
      store_dx<width, accumulate>(dx, dy, x, at.vector, at, standardized, terms, finish.through);
  }
}

// The terms of groups that are cut into pieces. The last block adds up the pieces' sums in order.
template <int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    piece_dx_terms_kernel(DxTerms<W>* terms, W* scratch, const T* dy, const T* x, Finish<T> finish,
                          Path<large_team> in) {
  __shared__ OfBlocks<W> all;
  const int64_t groups = gridDim.x, pieces = gridDim.y, of_block = blockIdx.x;
  const Piece piece(in.size, blockIdx.y, pieces);
  W sum, product;
  sum_for_dx<width>(sum, product, dy, x, finish.statistics[of_block], finish.factors(),
                    finish.through,
                    Walk<large_team>(in, piece.begin, piece.end).in_group(of_block));
  if (!is_last_and_has_all(all, scratch, sum, product)) return;
  const int64_t g = threadIdx.x;
  if (g >= groups) return;
  double sums = 0, products = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    sums += all.first[p * groups + g];
    products += all.second[p * groups + g];
  }
  terms[g] = finish(g, static_cast<W>(sums), static_cast<W>(products), true);
}

// A team computes the terms of its group.
template <int team, int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(large_team, 1)
    dx_terms_kernel(DxTerms<W>* terms, const T* dy, const T* x, Finish<T> finish, Path<team> in,
                    int64_t groups) {
  const Walk<team> start(in);
  for (int64_t g = first_item() / team; g < groups; g += item_stride() / team) {
    W sum, product;
    sum_for_dx<width>(sum, product, dy, x, finish.statistics[g], finish.factors(), finish.through,
                      start.in_group(g));
    if (threadIdx.x % team == 0) terms[g] = finish(g, sum, product, true);
  }
}

// All threads compute dx from the known terms of each group. If the moments are constants, there
// are no terms: both count as 0, and x is null.
template <int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    dx_by_terms_kernel(T* dx, const T* dy, const T* x, Statistics<W> statistics,
                       const DxTerms<W>* terms, ThroughRelu<T> through, Layout in) {
  for (GridWalk at(in); at.inside(); at.next()) {
    const int64_t g = at.group();
    const DxTerms<W> of_group = terms ? terms[g] : DxTerms<W>{0, 0};
    store_dx<width, accumulate>(dx, dy, x, at.v, at, statistics[g], of_group, through);
  }
}

// The length of the runs that vectors must not cross: a group's run if S = 1, else a channel's.
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

Grid grid_of_pieces(const Grouping& at) {
  return {dim3(static_cast<unsigned>(at.count()), static_cast<unsigned>(group_pieces(at))),
          large_team};
}

}  // namespace

void group_moments(View mean, View spread, Spread kind, View x, Grouping at, double eps,
                   Running running, View scratch) {
  if (at.count() == 0) return;
  if (at.are_columns()) return column_moments(mean, spread, kind, x, at, eps, running, scratch);
  const int64_t pieces = group_pieces(at);
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const MomentsOut<W> out(mean, spread, kind, at, eps, running);
        with_plane_width<T>(run_of(at), {x.data}, [&](auto width) {
          if (pieces > 1) {
            enqueue(grid_of_pieces(at), piece_moments_kernel<width.value, T>, out, scratch.as<W>(),
                    x.as<const T>(), Path<large_team>(at, width.value));
          } else {
            with_team(at, [&](auto team, const auto& grid) {
              enqueue(grid, moments_kernel<team.value, width.value, T>, out, x.as<const T>(),
                      Path<team.value>(at, width.value), at.count());
            });
          }
        });
      });
}

void norm_forward(View y, Normalizer by, View x, double eps, Running running, AffineMap map) {
  const Grouping& at = by.at;
  if (at.count() == 0) return;
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const MomentsOut<W> out(by.mean, by.rstd, Spread::rstd, at, eps, running);
        with_plane_width<T>(run_of(at), {y.data, x.data}, [&](auto width) {
          with_team(at, [&](auto team, const auto& grid) {
            enqueue(grid, norm_forward_kernel<team.value, width.value, T>, y.as<T>(), out,
                    x.as<const T>(), PerChannel<W>(map.gamma, 1), PerChannel<W>(map.beta, 0),
                    map.activation, Path<team.value>(at, width.value), at.count());
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
  if (by.at.are_columns())
    return normalize_columns(values, x, by, {gamma, beta, activation}, backward);
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        with_plane_width<T>(run_of(by.at), {values.data, x.data}, [&](auto width) {
          enqueue(grid_over(x.numel() / width.value), normalize_kernel<backward, width.value, T>,
                  values.as<T>(), x.as<const T>(), by.statistics<W>(), PerChannel<W>(gamma, 1),
                  PerChannel<W>(beta, 0), activation, Layout(by.at, width.value));
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

void part_of_dx_terms(View terms, View dy, View x, Normalizer by, View gamma, View scratch) {
  const Grouping& at = by.at;
  if (at.count() == 0) return;
  if (at.are_columns())
    return column_dx_terms(terms, {}, dy, x, by, {gamma, {}, Activation::none}, 1, scratch);
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        auto* const out = static_cast<DxTerms<W>*>(terms.data);
        const T *in_dy = dy.as<const T>(), *in_x = x.as<const T>();
        const Finish<T> finish(by, {gamma, {}, Activation::none}, {}, 1);
        with_plane_width<T>(run_of(at), {dy.data, x.data}, [&](auto width) {
          if (group_pieces(at) > 1) {
            enqueue(grid_of_pieces(at), piece_dx_terms_kernel<width.value, T>, out, scratch.as<W>(),
                    in_dy, in_x, finish, Path<large_team>(at, width.value));
          } else {
            with_team(at, [&](auto team, const auto& grid) {
              enqueue(grid, dx_terms_kernel<team.value, width.value, T>, out, in_dy, in_x, finish,
                      Path<team.value>(at, width.value), at.count());
            });
          }
        });
      });
}

namespace {

// dx, and what `to` wants, from dy. `given` terms replace the computed ones.
void enqueue_backward(GradTarget dx, const AffineTargets& to, View dy, View x, const Normalizer& by,
                      const AffineMap& map, View given, View scratch) {
  if (dy.numel() == 0) return;
  if (by.at.are_columns()) return columns_backward(dx, to, dy, x, by, map, given, scratch);
  const Grouping& at = by.at;
  const bool measured = by.source == Source::batch;
  const int64_t pieces = group_pieces(at);
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        T* out = dx.grad.as<T>();
        const T *in_dy = dy.as<const T>(), *in_x = measured ? x.as<const T>() : nullptr;
        const Finish<T> finish(by, map, to, at.elements());
        with_plane_width<T>(run_of(at), {dx.grad.data, dy.data, x.data}, [&](auto width) {
          with_beta(dx.beta, [&](auto accumulate) {
            if (measured && pieces == 1 && !given.data) {
              with_team(at, [&](auto team, const auto& grid) {
                enqueue(grid, norm_backward_kernel<team.value, width.value, accumulate.value, T>,
                        out, in_dy, in_x, finish, Path<team.value>(at, width.value), at.count());
              });
              return;
            }
            auto* terms = static_cast<DxTerms<W>*>(given.data);
            if (measured && !terms) {
              W* const sums = scratch.as<W>();
              terms = reinterpret_cast<DxTerms<W>*>(sums + 2 * pieces * at.count());
              enqueue(grid_of_pieces(at), piece_dx_terms_kernel<width.value, T>, terms, sums, in_dy,
                      in_x, finish, Path<large_team>(at, width.value));
            }
            enqueue(grid_over(dy.numel() / width.value),
                    dx_by_terms_kernel<width.value, accumulate.value, T>, out, in_dy, in_x,
                    finish.statistics, terms, finish.through, Layout(at, width.value));
          });
        });
      });
}

}  // namespace

void norm_backward(GradTarget dx, View dy, View x, Normalizer by, View gamma, View given,
                   View scratch) {
  enqueue_backward(dx, {}, dy, x, by, {gamma, {}, Activation::none}, given, scratch);
}

void channel_norm_backward(GradTarget dx, AffineTargets to, View dy, View x, Normalizer by,
                           AffineMap map, View scratch) {
  enqueue_backward(dx, to, dy, x, by, map, {}, scratch);
}

}  // namespace accrue::cuda
