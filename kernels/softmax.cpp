#include "kernels/softmax.h"

#include <cmath>

#include "core/ceil_div.h"
#include "kernels/detail/lanes.h"
#include "kernels/detail/softmax_kernels.h"
#include "kernels/detail/vector_exp.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {
namespace {

// Terms that are added in float, and columns that a thread goes down together.
constexpr int64_t run = 256, columns = 256;

// Calls body(first, count) for stretches of [begin, begin + n) that have room in a WideInput.
template <class Body>
void for_each_stretch(int64_t begin, int64_t n, Body&& body) {
  for (int64_t k = 0; k < n; k += wide_run) body(begin + k, std::min(wide_run, n - k));
}

// Entries [begin, begin + n) of x become y, which may be x.
template <class W>
void softmax_row(const View& y, const View& x, int64_t begin, int64_t n, SoftmaxResult result,
                 W scale) {
  W largest = -std::numeric_limits<W>::infinity();
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideInput<W> from(x, first, count);
    const W* const in = from.data();
    largest = std::max(largest, largest_of(in, count));
  });
  // Elements of 16 bits would be rounded before they are divided, and are computed twice.
  const bool keeps_terms = result == SoftmaxResult::probabilities && y.dtype == dtype_of<W>();
  const auto term = [=](W v) { return vector_exp(scale * (v - largest)); };
  double sum = 0;
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideInput<W> from(x, first, count);
    const W* const in = from.data();
    W* const terms = keeps_terms ? y.as<W>() + first : nullptr;
    if (terms) sum += sum_in_lanes<W>(count, [=](int64_t i) { return terms[i] = term(in[i]); });
    else sum += sum_in_lanes<W>(count, [=](int64_t i) { return term(in[i]); });
  });
  const bool is_log = result == SoftmaxResult::logarithms;
  const W share = static_cast<W>(is_log ? std::log(sum) : 1 / sum);
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideInput<W> from(keeps_terms ? y : x, first, count);
    const WideOutput<W> to(y, 0, first, count);
    const W* const in = from.data();
    W* const out = to.data();
    if (is_log)
      for (int64_t i = 0; i < count; ++i) out[i] = scale * (in[i] - largest) - share;
    else if (keeps_terms)
      for (int64_t i = 0; i < count; ++i) out[i] = in[i] * share;
    else
      for (int64_t i = 0; i < count; ++i) out[i] = term(in[i]) * share;
  });
}

template <class W>
void fill_with_zeros(const View& y, int64_t begin, int64_t n) {
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideOutput<W> to(y, 0, first, count);
    std::fill_n(to.data(), count, W(0));
  });
}

// Calls body(first, width) for columns that lie side by side, of which `first` is the first entry.
template <class Body>
void for_each_column_group(const Dimension& d, Body&& body) {
  const int64_t groups = ceil_div(d.inner, columns);
  parallel_each(d.outer * groups, 2 * d.size * std::min(columns, d.inner), [&](int64_t item) {
    const int64_t column = item % groups * columns;
    body(item / groups * d.size * d.inner + column, std::min(columns, d.inner - column));
  });
}

// Sums of `width` columns, in float within a run of terms.
template <class W>
struct ColumnSums {
  explicit ColumnSums(int64_t width) : width(width) {
    std::fill_n(sums, width, 0.0);
    std::fill_n(parts, width, W(0));
  }
  int64_t width;
  double sums[columns];
  W parts[columns];

  void flush() {
    for (int64_t k = 0; k < width; ++k) {
      sums[k] += double(parts[k]);
      parts[k] = 0;
    }
  }
};

template <class W>
void softmax_columns(const View& y, const View& x, const Dimension& d, SoftmaxResult result,
                     W scale) {
  const bool is_log = result == SoftmaxResult::logarithms;
  const bool keeps_terms = !is_log && y.dtype == dtype_of<W>();
  for_each_column_group(d, [&](int64_t first, int64_t width) {
    W largest[columns], shares[columns];
    std::fill_n(largest, width, -std::numeric_limits<W>::infinity());
    const auto entry = [&](int64_t c) { return first + c * d.inner; };
    for (int64_t c = 0; c < d.size; ++c) {
      const WideInput<W, columns> from(x, entry(c), width);
      const W* const in = from.data();
#pragma omp simd
      for (int64_t k = 0; k < width; ++k) largest[k] = in[k] > largest[k] ? in[k] : largest[k];
    }
    ColumnSums<W> sums(width);
    for (int64_t c = 0; c < d.size; ++c) {
      const WideInput<W, columns> from(x, entry(c), width);
      const W* const in = from.data();
      W room[columns], *const terms = keeps_terms ? y.as<W>() + entry(c) : room;
#pragma omp simd
      for (int64_t k = 0; k < width; ++k) terms[k] = vector_exp(scale * (in[k] - largest[k]));
      for (int64_t k = 0; k < width; ++k) sums.parts[k] += terms[k];
      if ((c + 1) % run == 0) sums.flush();
    }
    sums.flush();
    for (int64_t k = 0; k < width; ++k)
      shares[k] = static_cast<W>(is_log ? std::log(sums.sums[k]) : 1 / sums.sums[k]);
    for (int64_t c = 0; c < d.size; ++c) {
      const WideInput<W, columns> from(keeps_terms ? y : x, entry(c), width);
      const WideOutput<W, columns> to(y, 0, entry(c), width);
      const W* const in = from.data();
      W* const out = to.data();
      if (is_log)
        for (int64_t k = 0; k < width; ++k) out[k] = scale * (in[k] - largest[k]) - shares[k];
      else if (keeps_terms)
        for (int64_t k = 0; k < width; ++k) out[k] = in[k] * shares[k];
      else
        for (int64_t k = 0; k < width; ++k)
          out[k] = vector_exp(scale * (in[k] - largest[k])) * shares[k];
    }
  });
}

}  // namespace

// y may be x.
void softmax(View y, View x, Dimension d, SoftmaxOptions options) {
  const int32_t* const lengths =
      options.lengths.data ? options.lengths.as<const int32_t>() : nullptr;
  for (int64_t n = 0; n < options.lengths.numel() && lengths; ++n)
    check(1 <= lengths[n] && lengths[n] <= d.size,
          "[attention] length {} of sample {}: expected 1 to {}, the keys that there are",
          lengths[n], n, d.size);
  dispatch_widened(x.dtype, [&]<class W>() {
    const W scale = static_cast<W>(options.scale);
    if (d.inner > 1) return softmax_columns<W>(y, x, d, options.result, scale);
    parallel_each(d.outer, 2 * d.size, [&](int64_t row) {
      const int64_t begin = row * d.size;
      const int64_t seen =
          entries_seen(lengths, options.rows_of_sample, options.queries, row, d.size);
      softmax_row<W>(y, x, begin, seen, options.result, scale);
      if (seen < d.size) fill_with_zeros<W>(y, begin + seen, d.size - seen);
    });
  });
}

namespace {

// The factors of what is summed and of what the sum is multiplied by.
template <class W>
W in_sum(SoftmaxResult result, W dy, W y) {
  return result == SoftmaxResult::probabilities ? dy * y : dy;
}
template <class W>
W gradient(SoftmaxResult result, W dy, W y, W sum) {
  return result == SoftmaxResult::probabilities ? y * (dy - sum) : dy - vector_exp(y) * sum;
}

template <class W, class Accumulate>
void backward_row(const GradTarget& dx, const View& dy, const View& y, int64_t begin, int64_t n,
                  SoftmaxResult result, W scale, Accumulate accumulate) {
  double total = 0;
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideInput<W> slopes(dy, first, count), values(y, first, count);
    const W *const d = slopes.data(), *const v = values.data();
    total += sum_in_lanes<W>(count, [=](int64_t i) { return in_sum(result, d[i], v[i]); });
  });
  const W sum = static_cast<W>(total);
  for_each_stretch(begin, n, [&](int64_t first, int64_t count) {
    const WideInput<W> slopes(dy, first, count), values(y, first, count);
    const WideOutput<W> to(dx.grad, dx.beta, first, count);
    const W *const d = slopes.data(), *const v = values.data();
    W* const out = to.data();
    for (int64_t i = 0; i < count; ++i)
      store(out[i], scale * gradient(result, d[i], v[i], sum), accumulate);
  });
}

template <class W, class Accumulate>
void backward_columns(const GradTarget& dx, const View& dy, const View& y, const Dimension& d,
                      SoftmaxResult result, W scale, Accumulate accumulate) {
  for_each_column_group(d, [&](int64_t first, int64_t width) {
    ColumnSums<W> sums(width);
    for (int64_t c = 0; c < d.size; ++c) {
      const int64_t at = first + c * d.inner;
      const WideInput<W, columns> slopes(dy, at, width), values(y, at, width);
      const W *const in = slopes.data(), *const v = values.data();
      for (int64_t k = 0; k < width; ++k) sums.parts[k] += in_sum(result, in[k], v[k]);
      if ((c + 1) % run == 0) sums.flush();
    }
    sums.flush();
    W totals[columns];
    for (int64_t k = 0; k < width; ++k) totals[k] = static_cast<W>(sums.sums[k]);
    for (int64_t c = 0; c < d.size; ++c) {
      const int64_t at = first + c * d.inner;
      const WideInput<W, columns> slopes(dy, at, width), values(y, at, width);
      const WideOutput<W, columns> to(dx.grad, dx.beta, at, width);
      const W *const in = slopes.data(), *const v = values.data();
      W* const out = to.data();
      for (int64_t k = 0; k < width; ++k)
        store(out[k], scale * gradient(result, in[k], v[k], totals[k]), accumulate);
    }
  });
}

}  // namespace

// dx may be dy.
void softmax_backward(GradTarget dx, View dy, View y, Dimension d, SoftmaxOptions options) {
  dispatch_widened(dy.dtype, [&]<class W>() {
    const W scale = static_cast<W>(options.scale);
    with_beta(dx.beta, [&](auto accumulate) {
      if (d.inner > 1) return backward_columns<W>(dx, dy, y, d, options.result, scale, accumulate);
      parallel_each(d.outer, d.size, [&](int64_t row) {
        backward_row<W>(dx, dy, y, row * d.size, d.size, options.result, scale, accumulate);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::softmax) softmax;
decltype(cpu::softmax_backward) softmax_backward;
}  // namespace cuda

namespace {

Tensor run_softmax(std::string_view op, Tensor x, const Dimension& d,
                   const SoftmaxOptions& options) {
  const Edge edge = x;
  Tensor y = x.sole_owner() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::softmax, cuda::softmax>(y.device(), y.view(), x.view(), d, options);
  SoftmaxOptions of_backward = options;
  of_backward.lengths = {};
  record(op, y, {edge}, [=, y = y.saved()](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy))
      launch<cpu::softmax_backward, cuda::softmax_backward>(dy.device(), *dx, dy.view(), y.view(),
                                                            d, of_backward);
  });
  return y;
}

Tensor softmax_along(std::string_view op, Tensor x, int dim, SoftmaxResult result) {
  check_same(op, {&x});
  const int rank = x.shape().rank();
  check(-rank <= dim && dim < rank, "[{}] dimension {} of x {} does not exist", op, dim, x.shape());
  const Dimension d(x.shape(), dim < 0 ? dim + rank : dim);
  return run_softmax(op, std::move(x), d, {.result = result});
}

}  // namespace

Tensor softmax(Tensor x, int dim) {
  return softmax_along("softmax", std::move(x), dim, SoftmaxResult::probabilities);
}

Tensor log_softmax(Tensor x, int dim) {
  return softmax_along("log_softmax", std::move(x), dim, SoftmaxResult::logarithms);
}

Tensor detail::softmax_of_scores(Tensor x, double scale, const Tensor& lengths,
                                 AttentionMask mask) {
  check_same("attention", {&x});
  const int rank = x.shape().rank();
  check(rank >= 3 && (!lengths.defined() ||
                      (lengths.dtype() == DType::i32 && lengths.shape() == Shape{x.size(0)} &&
                       lengths.device() == x.device())),
        "[attention] scores {} and lengths {} {}: expected scores [N, ..., T, S] and lengths i32 "
        "[N] on their device",
        x.shape(), lengths.defined() ? name(lengths.dtype()) : "undefined", lengths.shape());
  SoftmaxOptions options{.scale = scale};
  if (lengths.defined()) options.lengths = lengths.view();
  options.rows_of_sample = x.shape().numel(1, rank - 1);
  if (mask == AttentionMask::causal) options.queries = x.size(-2);
  const Dimension d(x.shape(), rank - 1);
  return run_softmax("attention", std::move(x), d, options);
}

}  // namespace accrue
