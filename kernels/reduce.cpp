#include "kernels/reduce.h"

#include <limits>
#include <numeric>

#include "core/ceil_div.h"
#include "kernels/detail/lanes.h"
#include "kernels/detail/reduce_kernels.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {
namespace {

// Terms that are added in float, and outputs that are next to one another and summed together.
constexpr int64_t run = 256, columns = 128;

template <class W>
W wide_at(const View& x, int64_t i) {
  return *WideInput<W, 1>(x, i, 1).data();
}
template <class W>
void set_wide(const View& y, int64_t i, W value) {
  *WideOutput<W, 1>(y, 0, i, 1).data() = value;
}

// Calls body(term, offset, count) for an output's terms [begin, end) in stretches of at most `most`
// that lie side by side.
template <class Body>
void for_each_stretch(const Reduction& r, int64_t begin, int64_t end, int64_t most, Body&& body) {
  const int64_t row = r.neighbours();
  for (int64_t t = begin; t < end;) {
    const int64_t row_end = std::min(end, (t / row + 1) * row), offset = r.offset_of_term(t);
    for (int64_t s = t; s < row_end; s += most)
      body(s, offset + s - t, std::min(most, row_end - s));
    t = row_end;
  }
}

// Calls body(o, piece) for each output's pieces.
template <class Body>
void for_each_row(const Reduction& r, Body&& body) {
  parallel_each(r.outputs * r.pieces, r.terms / r.pieces,
                [&](int64_t i) { body(i / r.pieces, i % r.pieces); });
}

// Calls body(o, count, piece) for the pieces of `count` outputs that are next to one another.
template <class Body>
void for_each_column_group(const Reduction& r, Body&& body) {
  const int64_t width = r.neighbours(), groups = ceil_div(width, columns);
  const int64_t rows = r.outputs / std::max<int64_t>(width, 1);
  parallel_each(rows * groups * r.pieces,
                std::min(width, columns) * std::max<int64_t>(r.terms / r.pieces, 1),
                [&](int64_t i) {
                  const int64_t piece = i % r.pieces, group = i / r.pieces % groups,
                                row = i / r.pieces / groups;
                  const int64_t first = group * columns;
                  body(row * width + first, std::min(columns, width - first), piece);
                });
}

// The terms of a sum: elements, or the squares of their distances from a mean.
template <class W>
struct Plain {
  W operator()(W x, W) const { return x; }
};
template <class W>
struct SquaredDistance {
  W operator()(W x, W mean) const { return (x - mean) * (x - mean); }
};

// Calls put(o, piece, sum).
template <class W, class Term, class Put>
void sum_rows(const View& x, const View& mean, const Reduction& r, Term term, Put&& put) {
  for_each_row(r, [&](int64_t o, int64_t piece) {
    const int64_t first = r.offset_of_output(o);
    const W center = mean.data ? mean.as<const W>()[o] : W(0);
    double sum = 0;
    for_each_stretch(r, r.first_term(piece), r.first_term(piece + 1), wide_run,
                     [&](int64_t, int64_t offset, int64_t count) {
                       const WideInput<W> in(x, first + offset, count);
                       const W* const at = in.data();
                       sum +=
                           sum_in_lanes<W>(count, [=](int64_t i) { return term(at[i], center); });
                     });
    put(o, piece, sum);
  });
}

template <class W, class Term, class Put>
void sum_columns(const View& x, const View& mean, const Reduction& r, Term term, Put&& put) {
  for_each_column_group(r, [&](int64_t o, int64_t count, int64_t piece) {
    const int64_t first = r.offset_of_output(o), end = r.first_term(piece + 1);
    W centers[columns] = {}, parts[columns];
    double sums[columns] = {};
    if (mean.data) std::copy_n(mean.as<const W>() + o, count, centers);
    for (int64_t t = r.first_term(piece); t < end;) {
      std::fill_n(parts, count, W(0));
      for (const int64_t run_end = std::min(end, t + run); t < run_end; ++t) {
        const WideInput<W, columns> in(x, first + r.offset_of_term(t), count);
        const W* const at = in.data();
        for (int64_t k = 0; k < count; ++k) parts[k] += term(at[k], centers[k]);
      }
      for (int64_t k = 0; k < count; ++k) sums[k] += double(parts[k]);
    }
    for (int64_t k = 0; k < count; ++k) put(o + k, piece, sums[k]);
  });
}

}  // namespace

// y[o] = sum of x[o, t], or of (x[o, t] - mean[o])^2 if there is a mean, divided. Scratch: the sums
// of the pieces if there are some.
void reduce_sums(View y, View scratch, View x, View mean, Reduction r, double divisor) {
  dispatch_widened(x.dtype, [&]<class W>() {
    const auto divided = [=](double sum) { return static_cast<W>(sum / divisor); };
    const auto put = [&](int64_t o, int64_t piece, double sum) {
      if (r.pieces == 1) set_wide<W>(y, o, divided(sum));
      else scratch.as<double>()[o * r.pieces + piece] = sum;
    };
    const auto add_up = [&](auto term) {
      if (r.by_rows) sum_rows<W>(x, mean, r, term, put);
      else sum_columns<W>(x, mean, r, term, put);
    };
    if (mean.data) add_up(SquaredDistance<W>{});
    else add_up(Plain<W>{});
    if (r.pieces == 1) return;
    for (int64_t o = 0; o < r.outputs; ++o) {
      const double* const sums = scratch.as<const double>() + o * r.pieces;
      set_wide<W>(y, o, divided(std::accumulate(sums, sums + r.pieces, 0.0)));
    }
  });
}

namespace {

// Calls body(o, offset, count) for stretches of x whose elements are terms of output o, or, by
// columns, of outputs o, o + 1, ...
template <class Body>
void for_each_part(const Reduction& r, const View& x, Body&& body) {
  const int64_t width = r.neighbours();
  if (x.numel() == 0) return;
  const int64_t rows = r.by_rows ? r.terms / width : r.terms;
  parallel_each(x.numel() / width, width, [&](int64_t i) {
    const int64_t row = i % rows, o = r.by_rows ? i / rows : i / rows * width;
    const int64_t from = r.offset_of_output(o) + r.offset_of_term(r.by_rows ? row * width : row);
    for (int64_t k = 0; k < width; k += wide_run)
      body(r.by_rows ? o : o + k, from + k, std::min(wide_run, width - k));
  });
}

}  // namespace

// dx[o, t] = factor * dy[o], times x[o, t] - mean[o] if there is a mean.
void reduce_sums_backward(GradTarget dx, View dy, View x, View mean, Reduction r, double factor) {
  dispatch_widened(dy.dtype, [&]<class W>() {
    const W scale = static_cast<W>(factor);
    with_beta(dx.beta, [&](auto accumulate) {
      for_each_part(r, dx.grad, [&](int64_t o, int64_t first, int64_t count) {
        const int64_t step = r.by_rows ? 0 : 1;
        const WideInput<W> slopes(dy, o, r.by_rows ? 1 : count);
        const WideOutput<W> to(dx.grad, dx.beta, first, count);
        const W* const d = slopes.data();
        W* const out = to.data();
        if (!mean.data) {
          for (int64_t k = 0; k < count; ++k) store(out[k], scale * d[step * k], accumulate);
          return;
        }
        const WideInput<W> in(x, first, count);
        const W *const at = in.data(), *const center = mean.as<const W>() + o;
        for (int64_t k = 0; k < count; ++k)
          store(out[k], scale * d[step * k] * (at[k] - center[step * k]), accumulate);
      });
    });
  });
}

namespace {

template <class W>
struct Best {
  W value = -std::numeric_limits<W>::infinity();
  int64_t term = 0;

  void take(W x, int64_t t) {
    if (is_larger(x, value)) *this = {x, t};
  }
};

template <class W, class Put>
void search_rows(const View& x, const Reduction& r, W sign, Put&& put) {
  for_each_row(r, [&](int64_t o, int64_t piece) {
    const int64_t first = r.offset_of_output(o);
    Best<W> best{.term = r.first_term(piece)};
    for_each_stretch(r, r.first_term(piece), r.first_term(piece + 1), wide_run,
                     [&](int64_t t, int64_t offset, int64_t count) {
                       const WideInput<W> in(x, first + offset, count);
                       const W* const at = in.data();
                       const W largest = largest_of(at, count, sign);
                       const bool nan = has_nan(at, count);
                       if (!nan && !is_larger(largest, best.value)) return;
                       int64_t i = 0;
                       while (nan ? at[i] == at[i] : sign * at[i] != largest) ++i;
                       best.take(sign * at[i], t + i);
                     });
    put(o, piece, best);
  });
}

template <class W, class Put>
void search_columns(const View& x, const Reduction& r, W sign, Put&& put) {
  for_each_column_group(r, [&](int64_t o, int64_t count, int64_t piece) {
    const int64_t first = r.offset_of_output(o), begin = r.first_term(piece);
    W values[columns];
    int32_t terms[columns];
    std::fill_n(values, count, -std::numeric_limits<W>::infinity());
    std::fill_n(terms, count, static_cast<int32_t>(begin));
    for (int64_t t = begin; t < r.first_term(piece + 1); ++t) {
      const WideInput<W, columns> in(x, first + r.offset_of_term(t), count);
      const W* const at = in.data();
      for (int64_t k = 0; k < count; ++k) {
        const W value = sign * at[k];
        const bool takes = is_larger(value, values[k]);
        values[k] = takes ? value : values[k];
        terms[k] = takes ? static_cast<int32_t>(t) : terms[k];
      }
    }
    for (int64_t k = 0; k < count; ++k) put(o + k, piece, Best<W>{values[k], terms[k]});
  });
}

}  // namespace

// y[o] = x[o, index[o]], the largest or smallest; y may be without data. Scratch: for each piece
// its best value and term, if there are pieces.
void reduce_extremes(View y, View index, View scratch, View x, Reduction r, Extreme which) {
  dispatch_widened(x.dtype, [&]<class W>() {
    const W sign = sign_of<W>(which);
    const auto finish = [&](int64_t o, const Best<W>& best) {
      if (y.data) set_wide<W>(y, o, sign * best.value);
      index.as<int32_t>()[o] = static_cast<int32_t>(best.term);
    };
    const auto put = [&](int64_t o, int64_t piece, const Best<W>& best) {
      if (r.pieces == 1) return finish(o, best);
      double* const to = scratch.as<double>() + 2 * (o * r.pieces + piece);
      to[0] = double(best.value);
      to[1] = double(best.term);
    };
    if (r.by_rows) search_rows<W>(x, r, sign, put);
    else search_columns<W>(x, r, sign, put);
    if (r.pieces == 1) return;
    for (int64_t o = 0; o < r.outputs; ++o) {
      const double* from = scratch.as<const double>() + 2 * o * r.pieces;
      Best<W> best;
      for (int64_t p = 0; p < r.pieces; ++p)
        best.take(static_cast<W>(from[2 * p]), static_cast<int64_t>(from[2 * p + 1]));
      finish(o, best);
    }
  });
}

// dx[o, index[o]] = dy[o], and 0 elsewhere.
void reduce_extremes_backward(GradTarget dx, View dy, View index, Reduction r) {
  const int32_t* const places = index.as<const int32_t>();
  dispatch_widened(dy.dtype, [&]<class W>() {
    const auto place_of = [&](int64_t o) {
      return r.offset_of_output(o) + r.offset_of_term(places[o]);
    };
    if (dx.beta != 0)
      return parallel_each(r.outputs, 4, [&](int64_t o) {
        *WideOutput<W, 1>(dx.grad, dx.beta, place_of(o), 1).data() += wide_at<W>(dy, o);
      });
    for_each_part(r, dx.grad, [&](int64_t o, int64_t first, int64_t count) {
      const WideOutput<W> to(dx.grad, 0, first, count);
      std::fill_n(to.data(), count, W(0));
      for (int64_t k = 0; k < (r.by_rows ? 1 : count); ++k) {
        const int64_t at = place_of(o + k) - first;
        if (0 <= at && at < count) to.data()[at] = wide_at<W>(dy, o + k);
      }
    });
  });
}

namespace {

// A line of neighbours.
template <class W, class Accumulate>
void cumsum_line(const GradTarget& y, const View& x, int64_t begin, int64_t size,
                 Direction direction, Accumulate accumulate) {
  const bool forward = direction == Direction::from_first;
  double sum = 0;
  for (int64_t k = 0; k < size; k += wide_run) {
    const int64_t count = std::min(wide_run, size - k);
    const int64_t first = forward ? begin + k : begin + size - k - count;
    const WideInput<W> from(x, first, count);
    const WideOutput<W> to(y.grad, y.beta, first, count);
    const W* const in = from.data();
    W* const out = to.data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = forward ? i : count - 1 - i;
      sum += double(in[at]);
      store(out[at], static_cast<W>(sum), accumulate);
    }
  }
}

}  // namespace

// y[o, t, i] = sum of x[o, s, i] over s <= t, or over s >= t.
void cumsum(GradTarget y, View x, Dimension d, Direction direction) {
  const int64_t groups = ceil_div(d.inner, columns);
  const int64_t first = direction == Direction::from_first ? 0 : d.size - 1,
                step = direction == Direction::from_first ? 1 : -1;
  dispatch_widened(x.dtype, [&]<class W>() {
    with_beta(y.beta, [&](auto accumulate) {
      if (d.inner == 1)
        return parallel_each(d.outer, d.size, [&](int64_t line) {
          cumsum_line<W>(y, x, line * d.size, d.size, direction, accumulate);
        });
      parallel_each(d.outer * groups, d.size * std::min(columns, d.inner), [&](int64_t item) {
        const int64_t begin = item % groups * columns, count = std::min(columns, d.inner - begin);
        double sums[columns] = {};
        for (int64_t s = 0; s < d.size; ++s) {
          const int64_t at = ((item / groups) * d.size + first + s * step) * d.inner + begin;
          const WideInput<W, columns> from(x, at, count);
          const WideOutput<W, columns> to(y.grad, y.beta, at, count);
          const W* const in = from.data();
          W* const out = to.data();
          for (int64_t k = 0; k < count; ++k) {
            sums[k] += double(in[k]);
            store(out[k], static_cast<W>(sums[k]), accumulate);
          }
        }
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::reduce_sums) reduce_sums;
decltype(cpu::reduce_sums_backward) reduce_sums_backward;
decltype(cpu::reduce_extremes) reduce_extremes;
decltype(cpu::reduce_extremes_backward) reduce_extremes_backward;
decltype(cpu::cumsum) cumsum;
}  // namespace cuda

namespace {

int dimension_of(std::string_view op, const Tensor& x, int dim) {
  const int rank = x.shape().rank();
  check(-rank <= dim && dim < rank, "[{}] dimension {} of x {} does not exist", op, dim, x.shape());
  return dim < 0 ? dim + rank : dim;
}

// A reduction of x over these dimensions, and the shape of its result.
struct Reduced {
  Reduction reduction;
  Shape shape;

  Reduced(std::string_view op, const Tensor& x, const std::vector<int>& dims, KeepDims keep)
      : reduction(x.shape(), mask_of(op, x, dims)) {
    const unsigned mask = mask_of(op, x, dims);
    std::vector<int64_t> sizes;
    for (int d = 0; d < x.shape().rank(); ++d) {
      if ((mask >> d & 1) == 0) sizes.push_back(x.size(d));
      else if (keep == KeepDims::yes) sizes.push_back(1);
    }
    shape = Shape(sizes);
  }

 private:
  static unsigned mask_of(std::string_view op, const Tensor& x, const std::vector<int>& dims) {
    check_same(op, {&x});
    unsigned mask = dims.empty() ? ~0u : 0;
    for (const int dim : dims) {
      const unsigned bit = 1u << dimension_of(op, x, dim);
      check((mask & bit) == 0, "[{}] dimension {} of x {} is named twice", op, dim, x.shape());
      mask |= bit;
    }
    return mask;
  }
};

// For each output and piece so many numbers.
Tensor scratch_for(const Reduction& r, int64_t numbers, Device device) {
  const int64_t items = r.pieces == 1 ? 0 : r.outputs * r.pieces * numbers;
  return Tensor::empty({items}, DType::f64, device, Category::workspace);
}

void launch_sums(const Tensor& y, const Tensor& x, const Tensor& mean, const Reduction& r,
                 double divisor) {
  launch<cpu::reduce_sums, cuda::reduce_sums>(y.device(), y.view(),
                                              scratch_for(r, 1, y.device()).view(), x.view(),
                                              mean.defined() ? mean.view() : View{}, r, divisor);
}

// The sum, divided, whose gradient is dy by the same divisor.
Tensor divided_sum(std::string_view op, const Tensor& x, const Reduced& to, double divisor) {
  const Reduction& r = to.reduction;
  Tensor y = Tensor::empty(to.shape, x.dtype(), x.device());
  launch_sums(y, x, {}, r, divisor);
  const Edge edge = x;
  record(op, y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::reduce_sums_backward, cuda::reduce_sums_backward>(dy.device(), *dx, dy.view(),
                                                                    View{}, View{}, r, 1 / divisor);
  });
  return y;
}

void check_terms(std::string_view op, const Tensor& x, const Reduction& r) {
  check(0 < r.terms && r.terms <= std::numeric_limits<int32_t>::max(),
        "[{}] x {} has {} elements to choose from: expected 1 to 2^31 - 1", op, x.shape(), r.terms);
}

Tensor extreme(std::string_view op, const Tensor& x, const Reduced& to, Extreme which) {
  const Reduction& r = to.reduction;
  check_terms(op, x, r);
  const Device device = x.device();
  Tensor y = Tensor::empty(to.shape, x.dtype(), device);
  const Tensor index = Tensor::empty(to.shape, DType::i32, device);
  launch<cpu::reduce_extremes, cuda::reduce_extremes>(
      device, y.view(), index.view(), scratch_for(r, 2, device).view(), x.view(), r, which);
  const Edge edge = x;
  record(op, y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::reduce_extremes_backward, cuda::reduce_extremes_backward>(
          dy.device(), *dx, dy.view(), index.view(), r);
  });
  return y;
}

Tensor place_of_extreme(std::string_view op, const Tensor& x, int dim, KeepDims keep,
                        Extreme which) {
  const Reduced to(op, x, {dim}, keep);
  check_terms(op, x, to.reduction);
  const Tensor index = Tensor::empty(to.shape, DType::i32, x.device());
  launch<cpu::reduce_extremes, cuda::reduce_extremes>(
      x.device(), View{}, index.view(), scratch_for(to.reduction, 2, x.device()).view(), x.view(),
      to.reduction, which);
  return index;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  return divided_sum("sum", x, Reduced("sum", x, dims, keep), 1);
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  const Reduced to("mean", x, dims, keep);
  return divided_sum("mean", x, to, double(to.reduction.terms));
}

Tensor var(const Tensor& x, const std::vector<int>& dims, KeepDims keep, double correction) {
  const Reduced to("var", x, dims, keep);
  check(correction >= 0, "[var] a correction of {}: expected 0 or more", correction);
  const Reduction& r = to.reduction;
  const double divisor = std::max(double(r.terms) - correction, 0.0);
  const Tensor m = Tensor::empty(to.shape, wide(x.dtype()), x.device());
  launch_sums(m, x, {}, r, double(r.terms));
  Tensor y = Tensor::empty(to.shape, x.dtype(), x.device());
  launch_sums(y, x, m, r, divisor);
  const Edge edge = x;
  record("var", y, {edge}, [=, x = x.saved()](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::reduce_sums_backward, cuda::reduce_sums_backward>(
          dy.device(), *dx, dy.view(), x.view(), m.view(), r, 2 / divisor);
  });
  return y;
}

Tensor amax(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  return extreme("amax", x, Reduced("amax", x, dims, keep), Extreme::largest);
}
Tensor amin(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  return extreme("amin", x, Reduced("amin", x, dims, keep), Extreme::smallest);
}

Tensor argmax(const Tensor& x, int dim, KeepDims keep) {
  return place_of_extreme("argmax", x, dim, keep, Extreme::largest);
}
Tensor argmin(const Tensor& x, int dim, KeepDims keep) {
  return place_of_extreme("argmin", x, dim, keep, Extreme::smallest);
}

Tensor cumsum(const Tensor& x, int dim) {
  check_same("cumsum", {&x});
  const Dimension d(x.shape(), dimension_of("cumsum", x, dim));
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::cumsum, cuda::cumsum>(y.device(), GradTarget{y.view(), 0}, x.view(), d,
                                    Direction::from_first);
  const Edge edge = x;
  record("cumsum", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::cumsum, cuda::cumsum>(dy.device(), *dx, dy.view(), d, Direction::from_last);
  });
  return y;
}

}  // namespace accrue
