#include "kernels/norm.h"

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/norm_columns.h"
#include "kernels/detail/norm_kernels.h"
#include "kernels/detail/reduce.h"
#include "kernels/joined_batch.h"
#include "kernels/rearrange.h"

namespace accrue {
namespace cpu {

// Calls body(first element, number of elements) for each run of a group.
template <class Body>
void for_each_run(const Grouping& at, int64_t group, Body&& body) {
  const int64_t size = at.K * at.S;
  for (int64_t r = 0; r < at.runs(); ++r) body(group * size + r * at.C * at.S, size);
}

// Calls body(first element, number of elements, c, step) for pieces of a group in which element
// j has channel c + j * step. The step is a compile-time constant, so that loops over j vectorise
// for both steps.
template <class Body>
void for_each_piece(const Grouping& at, int64_t group, Body&& body) {
  const int64_t channel = group % at.per_sample() * at.K;
  for_each_run(at, group, [&](int64_t first, int64_t size) {
    if (at.S == 1) body(first, size, channel, std::integral_constant<int64_t, 1>{});
    else
      for (int64_t k = 0; k < at.K; ++k)
        body(first + k * at.S, at.S, channel + k, std::integral_constant<int64_t, 0>{});
  });
}

// Returns a function that gives gamma or beta for a piece's element j. In a piece of one channel
// the value is read once, so loops over j do not test whether gamma exists. Where channels differ,
// the compiler moves this test out of the loop, provided that nothing is captured by reference.
template <class T, int64_t step>
auto along(const PerChannel<T>& values, int64_t c, std::integral_constant<int64_t, step>) {
  if constexpr (step == 0) return [value = values[c]](int64_t) { return value; };
  else return [values, c](int64_t j) { return values[c + j]; };
}

// The sum of term(x) over a group.
template <class T, class Term>
double group_sum(const T* x, const Grouping& at, int64_t group, Term term) {
  double sum = 0;
  for_each_run(at, group, [&](int64_t first, int64_t size) {
    sum += sum_of<Wide<T>>(size, [=, in = x + first](int64_t j) { return term(in[j]); });
  });
  return sum;
}

// Stores the moments of a group, and returns them.
template <class T, class W = Wide<T>>
Standardized<W> measure_group(const MomentsOut<W>& out, const T* x, const Grouping& at, int64_t g) {
  const double sum = out.mean ? group_sum(x, at, g, [](T v) { return v; }) : 0;
  const W center = static_cast<W>(sum / static_cast<double>(at.elements()));
  const double deviations = group_sum(x, at, g, [=](T v) { return (v - center) * (v - center); });
  out.store(g, center, deviations);
  return {center, out.rstd(deviations)};
}

// Computes the moments of each group, and moves `running` towards them, with the unbiased variance.
void group_moments(View mean, View spread, Spread kind, View x, Grouping at, double eps,
                   Running running, View) {
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const MomentsOut<W> out(mean, spread, kind, at, eps, running);
        parallel_each(at.count(), at.elements(),
                      [&](int64_t g) { measure_group(out, x.as<const T>(), at, g); });
      });
}

// Computes the moments that evaluation normalises by.
void given_moments(View mean, View rstd, View given_mean, View given_var, double eps) {
  dispatch_wide(mean.dtype, [&]<class T>() {
    for (int64_t g = 0; g < mean.numel(); ++g) {
      mean.as<T>()[g] = given_mean.as<T>()[g];
      rstd.as<T>()[g] = rstd_of(given_var.as<T>()[g], eps);
    }
  });
}

// Calls body(i, z) with the place and the normalised value of each element. moments_of(group) gives
// a group's moments.
template <class T, class MomentsOf, class Body>
void for_each_normalized(View x, const Grouping& at, View gamma, View beta, MomentsOf&& moments_of,
                         Body&& body) {
  const PerChannel<Wide<T>> gammas(gamma, 1), betas(beta, 0);
  parallel_each(at.count(), at.elements(), [&](int64_t g) {
    const Standardized<Wide<T>> standardized = moments_of(g);
    for_each_piece(at, g, [&](int64_t first, int64_t size, int64_t c, auto step) {
      const T* in = x.as<T>() + first;
      const auto weight = along(gammas, c, step);
      const auto bias = along(betas, c, step);
      for (int64_t j = 0; j < size; ++j) body(first + j, standardized(in[j]) * weight(j) + bias(j));
    });
  });
}

template <class T>
auto known_moments(const Normalizer& by) {
  return [statistics = by.statistics<Wide<T>>()](int64_t g) { return statistics[g]; };
}

void normalize(View y, View x, Normalizer by, View gamma, View beta, Activation activation) {
  with_formula(activation, [&](auto f) {
    dispatch_floating(x.dtype, [&]<class T>() {
      T* const out = y.as<T>();
      for_each_normalized<T>(x, by.at, gamma, beta, known_moments<T>(by),
                             [=](int64_t i, Wide<T> z) { out[i] = T(f(z)); });
    });
  });
}

// group_moments() with Spread::rstd and then normalize(), for groups that is_normalized_at_once()
// admits, each while it is in the cache.
void norm_forward(View y, Normalizer by, View x, double eps, Running running, AffineMap map) {
  with_formula(map.activation, [&](auto f) {
    dispatch_floating(
        x.dtype, [&]<class T, class W = Wide<T>>() {
          const MomentsOut<W> moments(by.mean, by.rstd, Spread::rstd, by.at, eps, running);
          T* const out = y.as<T>();
          for_each_normalized<T>(
              x, by.at, map.gamma, map.beta,
              [&](int64_t g) { return measure_group(moments, x.as<const T>(), by.at, g); },
              [=](int64_t i, W z) { out[i] = T(f(z)); });
        });
  });
}

// dz = dy * act'(z) over dy.
void normalized_backward_over(View dy, View x, Normalizer by, View gamma, View beta,
                              Activation activation) {
  with_formula(activation, [&](auto f) {
    dispatch_floating(x.dtype, [&]<class T>() {
      T* const out = dy.as<T>();
      const formula::Backward<decltype(f)> through{f};
      for_each_normalized<T>(
          x, by.at, gamma, beta, known_moments<T>(by),
          [=](int64_t i, Wide<T> z) { out[i] = T(through(widen(out[i]), widen(T(f(z))))); });
    });
  });
}

// sums[j] = the sum of the terms of channel c + j, j < width. Each of these channels has one group
// in each sample.
template <class T, class TermAt>
void sum_side_by_side(double* sums, const Grouping& at, int64_t c, int64_t width,
                      const TermAt& term_at) {
  std::fill_n(sums, width, 0);
  for (int64_t n = 0; n < at.N; ++n) {
    const auto term = term_at((n * at.C + c) * at.S, at.group_of(n, c));
    if (at.S == 1)
      for (int64_t j = 0; j < width; ++j) sums[j] += static_cast<double>(term(j));
    else
      for (int64_t j = 0; j < width; ++j)
        sums[j] += sum_of<T>(at.S, [&](int64_t s) { return term(j * at.S + s); });
  }
}

// out[c] = sum_{i in c} term(i) + beta * out[c]. term_at(first, g) gives the terms of elements
// first + j, which are in group g. A thread owns a range of channels and sums neighbouring channels
// side by side, because with S = 1 a single channel is a strided column.
template <class T, class TermAt>
void channel_sums(GradTarget target, const Grouping& at, const TermAt& term_at) {
  constexpr int64_t most = 64;
  const int64_t block = at.S == 1 ? most : 1;
  T* out = target.grad.as<T>();
  parallel_for(ceil_div(at.C, block), block * at.N * at.S, [&](int64_t begin, int64_t end) {
    double sums[most];
    const int64_t last = std::min(at.C, end * block);
    for (int64_t c = begin * block, width = 0; c < last; c += width) {
      width = std::min({most, last - c, at.K - c % at.K});
      sum_side_by_side<T>(sums, at, c, width, term_at);
      for (int64_t j = 0; j < width; ++j)
        out[c + j] = blend(static_cast<T>(sums[j]), target.beta, out[c + j]);
    }
  });
}

// Computes the gradients of gamma and beta that are wanted.
void affine_backward(std::optional<GradTarget> dgamma, std::optional<GradTarget> dbeta, View dy,
                     View x, Normalizer by, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const T *in = x.as<T>(), *d = dy.as<T>();
        const auto statistics = by.statistics<W>();
        if (dgamma)
          channel_sums<W>(*dgamma, by.at, [&](int64_t first, int64_t g) {
            return [in = in + first, d = d + first, standardized = statistics[g]](int64_t j) {
              return d[j] * standardized(in[j]);
            };
          });
        if (dbeta)
          channel_sums<W>(*dbeta, by.at, [&](int64_t first, int64_t) {
            return [d = d + first](int64_t j) { return widen(d[j]); };
          });
      });
}

// The operands of norm_backward().
template <class T, class W = Wide<T>>
struct NormBackward {
  T* dx;
  const T *dy, *x;
  PerChannel<W> gamma;
  const Normalizer& by;
  const DxTerms<W>* given = nullptr;
  const Statistics<W> statistics = by.statistics<W>();

  // The terms of group g as averages over `elements`, which may count the elements of other parts,
  // too.
  DxTerms<W> terms_of(int64_t g, int64_t elements) const {
    const auto standardized = statistics[g];
    double sum = 0, product = 0;
    for_each_piece(by.at, g, [&](int64_t first, int64_t size, int64_t c, auto step) {
      const T *in = x + first, *d = dy + first;
      const auto weight = along(gamma, c, step);
      if (statistics.mean) sum += sum_of<W>(size, [=](int64_t j) { return weight(j) * d[j]; });
      product += sum_of<W>(
          size, [=](int64_t j) { return weight(j) * d[j] * (in[j] - standardized.mean); });
    });
    return statistics.dx_terms(g, sum, product, elements);
  }

  template <class Accumulate>
  void store_group(int64_t g, Accumulate accumulate) const {
    const auto standardized = statistics[g];
    const bool constant = by.source == Source::constant;
    const DxTerms<W> terms = constant ? DxTerms<W>{}
                             : given  ? given[g]
                                      : terms_of(g, by.at.elements());
    for_each_piece(by.at, g, [&](int64_t first, int64_t size, int64_t c, auto step) {
      T* const out = dx + first;
      const T* const d = dy + first;
      const auto weight = along(gamma, c, step);
      if (constant) {
        for (int64_t j = 0; j < size; ++j)
          store(out[j], standardized.rstd * (weight(j) * d[j]), accumulate);
        return;
      }
      const T* const in = x + first;
      for (int64_t j = 0; j < size; ++j)
        store(out[j], standardized.backward(in[j], weight(j) * d[j], terms), accumulate);
    });
  }
};

// Computes the sums of these elements for DxTerms, which are averages over the elements of all
// parts. The sums are not yet divided by the number of elements.
void part_of_dx_terms(View terms, View dy, View x, Normalizer by, View gamma, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const NormBackward<T> backward{nullptr, dy.as<T>(), x.as<T>(), PerChannel<W>(gamma, 1), by};
        auto* const out = static_cast<DxTerms<W>*>(terms.data);
        parallel_each(by.at.count(), by.at.elements(),
                      [&](int64_t g) { out[g] = backward.terms_of(g, 1); });
      });
}

// dx may be dy: a group's sums are complete before its first element is written. With constant
// moments x is not read. `terms`, if given, replace the computed ones.
void norm_backward(GradTarget dx, View dy, View x, Normalizer by, View gamma, View terms, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const NormBackward<T> backward{
            dx.grad.as<T>(),         dy.as<T>(), x.data ? x.as<T>() : nullptr,
            PerChannel<W>(gamma, 1), by,         static_cast<const DxTerms<W>*>(terms.data)};
        with_beta(dx.beta, [&](auto accumulate) {
          parallel_each(by.at.count(), by.at.elements(),
                        [&](int64_t g) { backward.store_group(g, accumulate); });
        });
      });
}

// dx, and the gradients of gamma and beta as far as they are wanted, of groups that are channels,
// in one pass over each while it is in the cache. dz is written over dy. dx may be dy.
void channel_norm_backward(GradTarget dx, AffineTargets to, View dy, View x, Normalizer by,
                           AffineMap map, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const ThroughRelu<T> through(map);
        const ChannelGradients<W> gradients(to);
        const auto statistics = by.statistics<W>();
        const Grouping& at = by.at;
        T *const out = dx.grad.as<T>(), *const d = dy.as<T>();
        const T* const in = x.as<T>();
        with_beta(dx.beta, [&](auto accumulate) {
          parallel_each(at.count(), at.elements(), [&](int64_t c) {
            const Standardized<W> standardized = statistics[c];
            const W gamma = through.gamma[c], beta = through.beta[c];
            double sum = 0, product = 0;
            for_each_run(at, c, [&](int64_t first, int64_t size) {
              T* const dz = d + first;
              const T* const xs = in + first;
              if (through.is_relu)
                for (int64_t j = 0; j < size; ++j)
                  dz[j] = T(through.dz(standardized, xs[j], dz[j], gamma, beta));
              sum += sum_of<W>(size, [=](int64_t j) { return widen(dz[j]); });
              product +=
                  sum_of<W>(size, [=](int64_t j) { return dz[j] * (xs[j] - standardized.mean); });
            });
            gradients.store(c, static_cast<W>(sum), static_cast<W>(product), standardized.rstd);
            const DxTerms<W> terms =
                statistics.dx_terms(c, double(gamma) * sum, double(gamma) * product, at.elements());
            for_each_run(at, c, [&](int64_t first, int64_t size) {
              T* const target = out + first;
              const T *const dz = d + first, *const xs = in + first;
              for (int64_t j = 0; j < size; ++j)
                store(target[j], standardized.backward(xs[j], gamma * dz[j], terms), accumulate);
            });
          });
        });
      });
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::norm_forward> {
  Work operator()(const View& y, const Normalizer& by, const View& x, double, const Running&,
                  const AffineMap& map) const {
    return work_of(0, y, x, by.mean, by.rstd, map.gamma, map.beta);
  }
};

template <>
struct detail::WorkOf<cpu::normalized_backward_over> {
  Work operator()(const View& dy, const View& x, const Normalizer&, const View&, const View&,
                  Activation) const {
    return {.bytes = 2 * bytes_of(dy) + bytes_of(x)};
  }
};

namespace cuda {
decltype(cpu::group_moments) group_moments;
decltype(cpu::given_moments) given_moments;
decltype(cpu::normalize) normalize;
decltype(cpu::norm_forward) norm_forward;
decltype(cpu::normalized_backward_over) normalized_backward_over;
decltype(cpu::affine_backward) affine_backward;
decltype(cpu::part_of_dx_terms) part_of_dx_terms;
decltype(cpu::norm_backward) norm_backward;
decltype(cpu::channel_norm_backward) channel_norm_backward;
}  // namespace cuda

namespace {

View view_of(const Tensor& x) { return x.defined() ? x.view() : View{}; }

// v is float32 beside a 16-bit x: it holds statistics, or parameters whose 16-bit copies would save
// nothing.
void check_wide(std::string_view op, const Tensor& x, const Tensor& v) {
  check(!v.defined() || (v.device() == x.device() && v.dtype() == wide(x.dtype())),
        "[{}] x {} on {} with {} on {}: expected {} on the same device", op, name(x.dtype()),
        name(x.device()), v.defined() ? name(v.dtype()) : "", v.defined() ? name(v.device()) : "",
        name(wide(x.dtype())));
}

void check_operands(std::string_view op, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                    int64_t C) {
  check_same(op, {&x});
  for (const Tensor* v : {&gamma, &beta}) check_wide(op, x, *v);
  for (const Tensor* v : {&gamma, &beta})
    check(!v->defined() || v->shape() == Shape{C},
          "[{}] gamma {} and beta {} with x {}: expected [{}] or undefined", op, gamma.shape(),
          beta.shape(), x.shape(), C);
}

// How moments are to be measured.
struct Measurement {
  double eps;
  Running running = {};
};

// Mean and 1 / sqrt(variance + eps) of every group, measured or given. An undefined mean counts as
// 0.
struct Moments {
  Tensor mean, rstd;
  Source source;
  // Set if they are still to be measured.
  std::optional<Measurement> by = {};
  // Set if the groups are parts of larger groups. Then the moments are from join_moments().
  struct Part {
    JoinedBatch* whole = nullptr;
    JoinedBatch::Run run{};
  } part = {};

  static Moments empty(const Tensor& x, const Grouping& at, Source source) {
    const auto make = [&] { return Tensor::empty({at.count()}, wide(x.dtype()), x.device()); };
    return {make(), make(), source};
  }
};

// Scratch of cuda's kernels: two numbers for each piece of a group, and two for each group.
Tensor pieces_scratch(const Grouping& at, Source source, DType dtype, Device device) {
  int64_t pieces = 0;  // that need any
  if (source == Source::batch && plans_for_cuda(device)) {
    pieces = at.are_columns() ? column_pieces(at, dtype) : group_pieces(at);
    if (pieces == 1 && !at.are_columns()) pieces = 0;
  }
  return Tensor::empty({pieces > 0 ? 2 * (pieces + 1) * at.count() : 0}, wide(dtype), device,
                       Category::workspace);
}

enum class Center { mean, zero };

// The moments of x, still to be measured.
Moments moments_of(std::string_view op, const Tensor& x, const Grouping& at, double eps,
                   const Running& running = {}, Center center = Center::mean) {
  check(at.elements() > 1, "[{}] x {} has groups of {} element(s): expected at least 2", op,
        x.shape(), at.elements());
  Moments moments = Moments::empty(x, at, Source::batch);
  moments.by = {eps, running};
  if (center == Center::zero) moments.mean.reset();
  return moments;
}

void measure(const Moments& moments, const Tensor& x, const Grouping& at) {
  launch<cpu::group_moments, cuda::group_moments>(
      x.device(), view_of(moments.mean), moments.rstd.view(), Spread::rstd, x.view(), at,
      moments.by->eps, moments.by->running,
      pieces_scratch(at, Source::batch, x.dtype(), x.device()).view());
}

// Computes the moments of the whole batch that x is a part of.
Moments measure_jointly(const Tensor& x, const Grouping& at, double eps,
                        const RunningStatistics& running, JoinedBatch& whole, const void* norm) {
  const auto own = [&] {
    Tensor part = Tensor::empty({3, at.C}, wide(x.dtype()), x.device());
    launch<cpu::group_moments, cuda::group_moments>(
        x.device(), part.slice(0, 1).view(), part.slice(1, 2).view(), Spread::deviations, x.view(),
        at, eps, Running{}, pieces_scratch(at, Source::batch, x.dtype(), x.device()).view());
    part.slice(2, 3).fill(static_cast<double>(at.elements()));
    return part;
  };
  const JoinedBatch::Run run = whole.join_moments(
      norm, own,
      [eps, running](const Tensor& of_parts) { return join_moments(of_parts, eps, running); });
  const auto row = [&](int64_t i) { return run.moments.slice(i, i + 1).reshape({at.C}); };
  return {row(0), row(1), Source::batch, {}, {&whole, run}};
}

// Computes the sums over all parts that dx needs.
Tensor dx_terms_jointly(const Tensor& dy, const Tensor& x, const Normalizer& by,
                        const Tensor& gamma, const Moments::Part& part) {
  const auto own = [&] {
    Tensor terms = Tensor::empty({by.at.C, 2}, wide(x.dtype()), x.device());
    launch<cpu::part_of_dx_terms, cuda::part_of_dx_terms>(
        x.device(), terms.view(), dy.view(), x.view(), by, view_of(gamma),
        pieces_scratch(by.at, Source::batch, x.dtype(), x.device()).view());
    return terms;
  };
  return part.whole->join_dx_terms(part.run, own, [moments = part.run.moments](const Tensor& all) {
    return join_dx_terms(all, moments);
  });
}

Tensor normalize(std::string_view op, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                 const Grouping& at, const Moments& moments,
                 Activation activation = Activation::none) {
  const Device device = x.device();
  const auto by = [=] {
    return Normalizer{at, view_of(moments.mean), moments.rstd.view(), moments.source};
  };
  const Edge dx_edge = x, dgamma_edge = gamma, dbeta_edge = beta;
  const bool is_activated = activation != Activation::none;
  const bool needs_x =
      moments.source == Source::batch || dgamma_edge.wants_grad() || dbeta_edge.wants_grad();
  // Then one kernel computes all three gradients.
  const bool is_at_once = moments.source == Source::batch && !moments.part.whole &&
                          at.are_channels() && activation != Activation::tanh;
  // The next layer usually keeps y as well.
  const bool needs_y = is_activated && !needs_x, computes_y = needs_y || !result_is_unread();
  const bool measures_at_once = moments.by && computes_y && is_normalized_at_once(at, device);
  if (moments.by && !measures_at_once) measure(moments, x, at);
  Tensor y = needs_y ? Tensor::empty(x.shape(), x.dtype(), device)
                     : empty_result(x.shape(), x.dtype(), device);
  if (measures_at_once)
    launch<cpu::norm_forward, cuda::norm_forward>(
        device, y.view(), by(), x.view(), moments.by->eps, moments.by->running,
        AffineMap{view_of(gamma), view_of(beta), activation});
  else if (computes_y)
    launch<cpu::normalize, cuda::normalize>(device, y.view(), x.view(), by(), view_of(gamma),
                                            view_of(beta), activation);

  record(op, y, {dx_edge, dgamma_edge, dbeta_edge},
         [=, x = needs_x ? x.saved() : Tensor(), y = needs_y ? y.saved() : Tensor(),
          gamma = gamma.saved(),
          beta = is_activated && needs_x ? beta.saved() : Tensor()](Tensor& dy) {
           if (is_at_once && dx_edge.wants_grad()) {
             offer_buffer(dx_edge, dy);
             const auto [dx, dgamma, dbeta] = claim_grads(dx_edge, dgamma_edge, dbeta_edge);
             return launch<cpu::channel_norm_backward, cuda::channel_norm_backward>(
                 device, *dx, AffineTargets{dgamma, dbeta}, dy.view(), x.view(), by(),
                 AffineMap{view_of(gamma), view_of(beta), activation},
                 pieces_scratch(at, moments.source, dy.dtype(), device).view());
           }
           if (needs_y)
             launch<cpu::activation_backward_over, cuda::activation_backward_over>(
                 device, dy.view(), y.view(), activation);
           else if (is_activated)
             launch<cpu::normalized_backward_over, cuda::normalized_backward_over>(
                 device, dy.view(), x.view(), by(), view_of(gamma), view_of(beta), activation);
           if (const auto [dgamma, dbeta] = claim_grads(dgamma_edge, dbeta_edge); dgamma || dbeta)
             launch<cpu::affine_backward, cuda::affine_backward>(
                 device, dgamma, dbeta, dy.view(), x.view(), by(),
                 channel_sums_scratch(2, at.N, at.C, at.S, x.dtype(), device).view());
           Tensor terms;
           if (moments.part.whole && dx_edge.wants_grad()) {
             terms = dx_terms_jointly(dy, x, by(), gamma, moments.part);
             if (!terms.defined()) return;
           }
           if (auto dx = claim_grad_over(dx_edge, dy))
             launch<cpu::norm_backward, cuda::norm_backward>(
                 device, *dx, dy.view(), view_of(x), by(), view_of(gamma), view_of(terms),
                 pieces_scratch(at, moments.source, dy.dtype(), device).view());
         });
  return y;
}

// The groups of layer_norm and rms_norm: the rows of x [..., C].
Grouping rows(std::string_view op, const Tensor& x) {
  check(x.defined() && x.shape().rank() >= 1 && x.size(-1) > 0,
        "[{}] x {}: expected [..., C] with C above 0", op, x.shape());
  const int64_t C = x.size(-1);
  return {x.numel() / C, C, 1, C, Grouping::Over::sample};
}

// C of x [N, C, ...].
int64_t channels(std::string_view op, const Tensor& x) {
  check(x.defined() && x.shape().rank() >= 2 && x.size(1) > 0,
        "[{}] x {}: expected [N, C, ...] with C above 0", op, x.shape());
  return x.size(1);
}

// Cuts the channels of each sample into `groups` groups.
Grouping groups_of_channels(std::string_view op, const Tensor& x, int64_t groups) {
  const int64_t C = channels(op, x), S = x.shape().numel(2, x.shape().rank());
  check(groups > 0 && C % groups == 0, "[{}] {} groups of the {} channels of x {} are not equal",
        op, groups, C, x.shape());
  return {x.size(0), C, S, C / groups, Grouping::Over::sample};
}

Tensor norm_of_channels(std::string_view op, const Tensor& x, int64_t groups, const Tensor& gamma,
                        const Tensor& beta, double eps, Activation activation = Activation::none) {
  const Grouping at = groups_of_channels(op, x, groups);
  check_operands(op, x, gamma, beta, at.C);
  return normalize(op, x, gamma, beta, at, moments_of(op, x, at, eps), activation);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  const Grouping at = rows("layer_norm", x);
  check_operands("layer_norm", x, gamma, beta, at.C);
  return normalize("layer_norm", x, gamma, beta, at, moments_of("layer_norm", x, at, eps));
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  const Grouping at = rows("rms_norm", x);
  check_operands("rms_norm", x, gamma, {}, at.C);
  return normalize("rms_norm", x, gamma, {}, at,
                   moments_of("rms_norm", x, at, eps, {}, Center::zero));
}

// rms_norm divides by sqrt(|x|^2 / D).
Tensor detail::unit_rows(const Tensor& x) {
  const double D = double(x.size(x.shape().rank() - 1));
  const Tensor gamma = Tensor::full({int64_t(D)}, 1 / std::sqrt(D), wide(x.dtype()), x.device());
  return rms_norm(x, gamma, 1e-24);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                  Activation activation, double eps) {
  return norm_of_channels("group_norm", x, groups, gamma, beta, eps, activation);
}

GroupMoments detail::group_moments(const Tensor& x, int64_t groups, double eps) {
  const Grouping at = groups_of_channels("group_moments", x, groups);
  check_same("group_moments", {&x});
  Moments moments = moments_of("group_moments", x, at, eps);
  measure(moments, x, at);
  return {std::move(moments.mean), std::move(moments.rstd)};
}

Tensor group_norm(const Tensor& x, const GroupMoments& moments, const Tensor& gamma,
                  const Tensor& beta, Activation activation) {
  const int64_t C = channels("group_norm", x), N = x.size(0);
  check_operands("group_norm", x, gamma, beta, C);
  check_same("group_norm", {&moments.mean, &moments.rstd});
  check_wide("group_norm", x, moments.mean);
  const Shape& shape = moments.mean.shape();
  check(shape == moments.rstd.shape() && shape.rank() == 1 && N > 0 && shape[0] % N == 0,
        "[group_norm] x {} by means {} and deviations {}: expected as many for each sample",
        x.shape(), shape, moments.rstd.shape());
  const Grouping at = groups_of_channels("group_norm", x, shape[0] / N);
  return normalize("group_norm", x, gamma, beta, at, {moments.mean, moments.rstd, Source::constant},
                   activation);
}

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                     Activation activation) {
  return norm_of_channels("instance_norm", x, channels("instance_norm", x), gamma, beta, eps,
                          activation);
}

namespace {

// The groups of batch_norm(): each channel over all n. Throws Error unless its operands agree.
Grouping channels_of_batch(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                           const RunningStatistics& running, Channels layout) {
  const bool is_last = layout == Channels::last;
  check(!is_last || (x.defined() && x.shape().rank() == 4 && x.size(3) > 0),
        "[batch_norm] x {}: expected [N, H, W, C] with C above 0", x.shape());
  const int64_t C = is_last ? x.size(3) : channels("batch_norm", x);
  check_operands("batch_norm", x, gamma, beta, C);
  check_same("batch_norm", {&running.mean, &running.var});
  check_wide("batch_norm", x, running.mean);
  check(running.mean.shape() == Shape{C} && running.var.shape() == Shape{C},
        "[batch_norm] running mean {} and variance {} with x {}: expected [{}]",
        running.mean.shape(), running.var.shape(), x.shape(), C);
  if (is_last) return {x.numel() / C, C, 1, 1, Grouping::Over::batch};
  return {x.size(0), C, x.shape().numel(2, x.shape().rank()), 1, Grouping::Over::batch};
}

// Images that lie as the kernels want them: permuted, if they have channels last on the CPU.
template <class Norm>
Tensor norm_where_they_lie(const Tensor& x, Channels layout, const Norm& norm) {
  if (layout == Channels::first || plans_for_cuda(x.device()) || x.shape().rank() != 4)
    return norm(x, layout);
  return channels_last(norm(channels_first(x), Channels::first));
}

}  // namespace

Tensor detail::batch_norm(const Tensor& images, const Tensor& gamma, const Tensor& beta,
                          const RunningStatistics& running, NormMode mode, double eps,
                          Activation activation, Channels channels) {
  return norm_where_they_lie(images, channels, [&](const Tensor& x, Channels layout) {
    const Grouping at = channels_of_batch(x, gamma, beta, running, layout);
    if (mode == NormMode::eval) {
      // Copies the moments, because a later forward in train mode may change the running ones
      // before backward.
      const Moments moments = Moments::empty(x, at, Source::constant);
      launch<cpu::given_moments, cuda::given_moments>(x.device(), moments.mean.view(),
                                                      moments.rstd.view(), running.mean.view(),
                                                      running.var.view(), eps);
      return normalize("batch_norm", x, gamma, beta, at, moments, activation);
    }
    const Running moved = recomputing()
                              ? Running{}
                              : Running{running.mean.view(), running.var.view(), running.momentum};
    return normalize("batch_norm", x, gamma, beta, at, moments_of("batch_norm", x, at, eps, moved),
                     activation);
  });
}

Tensor detail::batch_norm(const Tensor& images, const Tensor& gamma, const Tensor& beta,
                          const RunningStatistics& running, JoinedBatch& whole, const void* norm,
                          double eps, Activation activation, Channels channels) {
  return norm_where_they_lie(images, channels, [&](const Tensor& x, Channels layout) {
    const Grouping at = channels_of_batch(x, gamma, beta, running, layout);
    return normalize("batch_norm", x, gamma, beta, at,
                     measure_jointly(x, at, eps, running, whole, norm), activation);
  });
}

}  // namespace accrue
