#include <algorithm>

#include "kernels/detail/elementwise_functions.h"
#include "kernels/detail/elementwise_kernels.h"
#include "kernels/detail/reduce.h"
#include "kernels/detail/wide_runs.h"

namespace accrue::cpu {
namespace {

// A run of values of W, the type that they are computed in; null for those that are not read.
template <class W>
struct Runs {
  const W *d, *a, *b, *c, *y;
};

// out[i] = f at point i. `out` may be one of the runs.
template <class W>
using RunFunction = void (*)(W* out, const Runs<W>& from, const W* scalars, int64_t n);

template <class F, class W>
void value_run(W* out, const Runs<W>& from, const W* scalars, int64_t n) {
  const W *const a = from.a, *const b = from.b, *const c = from.c;
  const W s = scalars[0], t = scalars[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    out[i] = F::value_at(formula_list::Point<W>{
        0, a[i], F::operands > 1 ? b[i] : 0, F::operands > 2 ? c[i] : 0, 0, {s, t}});
}

template <class F, int operand, class W>
void gradient_run(W* out, const Runs<W>& from, const W* scalars, int64_t n) {
  using namespace formula_list;
  constexpr unsigned reads = F::reads[operand];
  const W *const d = from.d, *const a = from.a, *const b = from.b, *const y = from.y;
  const W s = scalars[0], t = scalars[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    out[i] =
        F::gradient_at(std::integral_constant<int, operand>{}, Point<W>{d[i],
                                                                        reads & reads_a ? a[i] : 0,
                                                                        reads & reads_b ? b[i] : 0,
                                                                        0,
                                                                        reads & reads_y ? y[i] : 0,
                                                                        {s, t}});
}

template <class W>
struct Functions {
  RunFunction<W> value, gradients[3];  // no gradient: there is none, or it is dy itself
};

template <class W, class F>
constexpr Functions<W> functions_of() {
  using namespace formula_list;
  constexpr unsigned without = has_no_gradient | is_passed_on;
  Functions<W> functions{value_run<F, W>, {}};
  if constexpr (!(F::reads[0] & without)) functions.gradients[0] = gradient_run<F, 0, W>;
  if constexpr (F::operands > 1)
    if constexpr (!(F::reads[1] & without)) functions.gradients[1] = gradient_run<F, 1, W>;
  if constexpr (F::operands > 2)
    if constexpr (!(F::reads[2] & without)) functions.gradients[2] = gradient_run<F, 2, W>;
  return functions;
}

// By the number of a Formula.
template <class W>
const Functions<W>& functions_of(Formula formula) {
#define ACCRUE_FUNCTIONS(name, ...) functions_of<W, formula_list::name>(),
  static constexpr Functions<W> functions[] = {
      ACCRUE_FORMULAS(ACCRUE_FUNCTIONS, ACCRUE_FUNCTIONS, ACCRUE_FUNCTIONS)};
#undef ACCRUE_FUNCTIONS
  return functions[static_cast<size_t>(formula)];
}

// Calls body(element, stride, count) for the rows of `at` that numbers [first, first + n) lie in.
template <class Body>
void for_each_row(const Strided& at, int64_t first, int64_t n, Body&& body) {
  int64_t index[Shape::max_rank], element = 0;
  const int last = at.rank - 1;
  for (int d = last; d > 0; --d) {
    index[d] = first % at.sizes[d];
    first /= at.sizes[d];
    element += index[d] * at.strides[d];
  }
  index[0] = first;
  element += first * at.strides[0];
  while (n > 0) {
    const int64_t count = std::min(n, at.sizes[last] - index[last]);
    body(element, at.strides[last], count);
    n -= count;
    element -= index[last] * at.strides[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      element += at.strides[d];
      if (++index[d] < at.sizes[d]) break;
      element -= at.sizes[d] * at.strides[d];
      index[d] = 0;
    }
  }
}

// Numbers [first, first + n) of x in an order, n at most wide_run: where they lie, or in room of
// their own. No numbers of an x without elements.
template <class W>
class Tile {
 public:
  Tile(const View& x, const Strided& at, int64_t first, int64_t n) {
    if (!x.data) return;
    const int last = at.rank - 1;
    const bool in_one_row = last == 0 || first % at.sizes[last] + n <= at.sizes[last];
    if (x.dtype == DType::i32) gather<int32_t>(x, at, first, n);
    else if (x.dtype == DType::u8) gather<uint8_t>(x, at, first, n);
    else if (in_one_row && at.strides[last] == 1) take(x, at.at(first), n);
    else if (x.dtype == dtype_of<W>()) gather<W>(x, at, first, n);
    else if constexpr (std::is_same_v<W, float>) {
      if (x.dtype == DType::f16) gather<Half>(x, at, first, n);
      else gather<BFloat16>(x, at, first, n);
    }
  }
  Tile(const Tile&) = delete;
  const W* data() const { return data_; }

 private:
  void take(const View& x, int64_t element, int64_t n) {
    if (x.dtype == dtype_of<W>()) {
      data_ = x.as<const W>() + element;
    } else if constexpr (std::is_same_v<W, float>) {
      widen_run(room_, x, element, n);
      data_ = room_;
    }
  }
  template <class T>
  void gather(const View& x, const Strided& at, int64_t first, int64_t n) {
    const T* const in = x.as<const T>();
    W* out = room_;
    data_ = room_;
    // Where the outermost dimension is repeated, the numbers within it are, too.
    int64_t period = at.rank > 1 && at.strides[0] == 0 ? 1 : n;
    for (int d = 1; d < at.rank && period < n; ++d) period *= at.sizes[d];
    int64_t done = std::min(n, period);
    for_each_row(at, first, done, [&](int64_t element, int64_t stride, int64_t count) {
      if (stride == 0) std::fill_n(out, count, W(in[element]));
      else if (stride == 1) std::copy_n(in + element, count, out);
      else
        for (int64_t i = 0; i < count; ++i) out[i] = W(in[element + i * stride]);
      out += count;
    });
    for (; done < n; done += std::min(done, n - done))
      std::copy_n(room_, std::min(done, n - done), room_ + done);
  }

  const W* data_ = nullptr;
  W room_[wide_run];
};

// Calls body(first, n) for tiles that cover [0, n).
template <class Body>
void for_each_tile(int64_t n, Body&& body) {
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += wide_run)
      body(first, std::min(wide_run, end - first));
  });
}

// The terms df/dx * dy of a gradient, in the order of the sums that they are for.
template <class W>
class Terms {
 public:
  Terms(const View& dy, const KeptValues& values, const IndexOrder& order, const Calculation& f,
        int operand)
      : dy_(dy),
        values_(values),
        as_dy_(order.of(dy.shape, dy.shape)),
        a_(order.of(values.a.shape, dy.shape)),
        b_(order.of(values.b.shape, dy.shape)),
        c_(order.of(values.c.shape, dy.shape)),
        gradient_(functions_of<W>(f.formula).gradients[operand]),
        scalars_{static_cast<W>(f.scalars[0]), static_cast<W>(f.scalars[1])} {}

  // Writes terms [first, first + n) to `out`, which may be dy's elements.
  void write(W* out, int64_t first, int64_t n) const {
    if (n == 0) return;
    const Tile<W> d(dy_, as_dy_, first, n);
    if (!gradient_) {
      if (out != d.data()) std::copy_n(d.data(), n, out);
      return;
    }
    const Tile<W> a(values_.a, a_, first, n), b(values_.b, b_, first, n),
        c(values_.c, c_, first, n), y(values_.y, as_dy_, first, n);
    gradient_(out, {d.data(), a.data(), b.data(), c.data(), y.data()}, scalars_, n);
  }

 private:
  const View& dy_;
  const KeptValues& values_;
  const Strided as_dy_, a_, b_, c_;
  const RunFunction<W> gradient_;
  const W scalars_[2];
};

// Piece p of the sums of numbers [begin, end), whose terms are neighbours each.
template <class W>
void sum_rows(double* sums, const Terms<W>& terms, const BroadcastSums& of, int64_t p,
              int64_t begin, int64_t end) {
  W room[wide_run];
  const int64_t first = of.begin(p), last = of.begin(p + 1);
  const auto sum_of_room = [&](int64_t at, int64_t n) {
    return sum_of<W>(n, [&](int64_t i) { return room[at + i]; });
  };
  if (of.R > wide_run) {
    for (int64_t o = begin; o < end; ++o) {
      double& sum = sums[o - begin] = 0;
      for (int64_t r = first; r < last; r += wide_run) {
        const int64_t n = std::min(wide_run, last - r);
        terms.write(room, o * of.R + r, n);
        sum += sum_of_room(0, n);
      }
    }
    return;
  }
  const int64_t length = last - first,
                most = of.pieces > 1 ? 1 : wide_run / std::max(length, int64_t{1});
  for (int64_t o = begin; o < end; o += most) {
    const int64_t count = std::min(most, end - o);
    terms.write(room, o * of.R + first, count * length);
    for (int64_t k = 0; k < count; ++k) sums[o - begin + k] = sum_of_room(k * length, length);
  }
}

// The same where the terms of neighbouring sums are neighbours: in a row of terms for each index
// that is summed over. Every so many rows have sums of their own until the end, so that the rows of
// few sums are added by vectors, too.
template <class W>
void sum_columns(double* sums, const Terms<W>& terms, const BroadcastSums& of, int64_t p,
                 int64_t begin, int64_t end) {
  W room[wide_run];
  double sums_of_rows[wide_run];
  const int64_t last = of.begin(p + 1), width = end - begin;
  const int64_t most = width == of.O ? wide_run / width : 1;
  std::fill_n(sums_of_rows, most * width, 0.0);
  for (int64_t r = of.begin(p); r < last; r += most) {
    const int64_t n = std::min(most, last - r) * width;
    terms.write(room, r * of.O + begin, n);
    for (int64_t i = 0; i < n; ++i) sums_of_rows[i] += static_cast<double>(room[i]);
  }
  std::copy_n(sums_of_rows, width, sums);
  for (int64_t k = 1; k < most; ++k)
    for (int64_t i = 0; i < width; ++i) sums[i] += sums_of_rows[k * width + i];
}

template <class W>
void store_sums(const GradTarget& dx, int64_t first, const double* sums, int64_t n) {
  const WideOutput<W> to(dx.grad, dx.beta, first, n);
  for (int64_t i = 0; i < n; ++i)
    to.data()[i] = blend(static_cast<W>(sums[i]), dx.beta, to.data()[i]);
}

// Pieces are summed in blocks of neighbouring sums, and the sums of a sum's pieces in order.
template <class W>
void sum_terms(const GradTarget& dx, const Terms<W>& terms, const BroadcastSums& of, View scratch) {
  constexpr int64_t worth_it = 16384;
  const int64_t length = std::max<int64_t>(1, of.R / of.pieces);
  const int64_t side_by_side =
      of.sums_inside ? wide_run : std::clamp<int64_t>(worth_it / length, 1, wide_run);
  const int64_t blocks = ceil_div(of.O, side_by_side);
  double* const partials = of.pieces > 1 ? scratch.as<double>() : nullptr;
  parallel_each(blocks * of.pieces, length * std::min(of.O, side_by_side), [&](int64_t unit) {
    const int64_t p = unit % of.pieces, block = unit / of.pieces;
    const int64_t begin = of.O * block / blocks, end = of.O * (block + 1) / blocks;
    double sums[wide_run];
    if (of.sums_inside) sum_columns(sums, terms, of, p, begin, end);
    else sum_rows(sums, terms, of, p, begin, end);
    if (partials) std::copy_n(sums, end - begin, partials + p * of.O + begin);
    else store_sums<W>(dx, begin, sums, end - begin);
  });
  if (!partials) return;
  for_each_tile(of.O, [&](int64_t first, int64_t n) {
    double sums[wide_run];
    std::copy_n(partials + first, n, sums);
    for (int64_t p = 1; p < of.pieces; ++p)
      for (int64_t i = 0; i < n; ++i) sums[i] += partials[p * of.O + first + i];
    store_sums<W>(dx, first, sums, n);
  });
}

}  // namespace

void elementwise_forward(View y, View a, View b, View c, Calculation f) {
  dispatch_widened(y.dtype, [&]<class W>() {
    const IndexOrder order;
    const Strided at_a = order.of(a.shape, y.shape), at_b = order.of(b.shape, y.shape),
                  at_c = order.of(c.shape, y.shape);
    const RunFunction<W> value = functions_of<W>(f.formula).value;
    const W scalars[] = {static_cast<W>(f.scalars[0]), static_cast<W>(f.scalars[1])};
    for_each_tile(y.numel(), [&](int64_t first, int64_t n) {
      const Tile<W> from_a(a, at_a, first, n), from_b(b, at_b, first, n), from_c(c, at_c, first, n);
      const WideOutput<W> to(y, 0, first, n);
      value(to.data(), {nullptr, from_a.data(), from_b.data(), from_c.data(), nullptr}, scalars, n);
    });
  });
}

void elementwise_backward(GradTarget dx, View dy, KeptValues values, View scratch, Calculation f,
                          int operand) {
  if (is_unchanged(dx, dy, f, operand)) return;
  const BroadcastSums sums(dx.grad.shape, dy.shape, Device::cpu);
  dispatch_widened(dy.dtype, [&]<class W>() {
    const Terms<W> terms(dy, values, sums.order, f, operand);
    if (!sums.is_none()) return sum_terms(dx, terms, sums, scratch);
    for_each_tile(dy.numel(), [&](int64_t first, int64_t n) {
      const WideOutput<W> to(dx.grad, dx.beta, first, n);
      if (dx.beta == 0) return terms.write(to.data(), first, n);
      W room[wide_run];
      terms.write(room, first, n);
      for (int64_t i = 0; i < n; ++i) to.data()[i] += room[i];
    });
  });
}

}  // namespace accrue::cpu
