#include "kernels/detail/elementwise_functions.h"
#include "kernels/detail/elementwise_kernels.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/detail/sin_cos.cuh"

namespace accrue::cuda {
namespace {

// Formulas, and the dtypes of 16 and 32 bits, are chosen as the kernels run, by all threads alike:
// one kernel for each formula and dtype would be hundreds.

using formula_list::Point;

// Sine, cosine and tangent are those that need no stack.
template <class F, class W>
__device__ W value_at(const Point<W>& p) {
  if constexpr (std::is_same_v<F, formula_list::sin>) return sin_of(p.a);
  else if constexpr (std::is_same_v<F, formula_list::cos>) return cos_of(p.a);
  else if constexpr (std::is_same_v<F, formula_list::tan>) return tan_of(p.a);
  else return F::value_at(p);
}

template <class W>
__device__ W value_at(Formula formula, const Point<W>& p) {
  switch (formula) {
#define ACCRUE_VALUE(name, ...) \
  case Formula::name: return value_at<formula_list::name>(p);
    ACCRUE_FORMULAS(ACCRUE_VALUE, ACCRUE_VALUE, ACCRUE_VALUE)
#undef ACCRUE_VALUE
  }
  return p.a;
}

// A formula's gradient of operand k: the formula and the operand by one number.
constexpr int gradient_of(Formula formula, int operand) {
  return 3 * static_cast<int>(formula) + operand;
}

template <class F, int operand, class W>
__device__ W gradient_at(const Point<W>& p) {
  constexpr unsigned is_simpler = formula_list::is_passed_on | formula_list::has_no_gradient;
  if constexpr (F::reads[operand] & is_simpler) return p.d;
  else if constexpr (std::is_same_v<F, formula_list::sin>) return p.d * cos_of(p.a);
  else if constexpr (std::is_same_v<F, formula_list::cos>) return -p.d * sin_of(p.a);
  else return F::gradient_at(std::integral_constant<int, operand>{}, p);
}

template <class W>
__device__ W gradient_at(int gradient, const Point<W>& p) {
#define ACCRUE_GRADIENT(name, operand)      \
  case gradient_of(Formula::name, operand): \
    return gradient_at<formula_list::name, operand>(p);
#define ACCRUE_GRADIENT_1(name, ...) ACCRUE_GRADIENT(name, 0)
#define ACCRUE_GRADIENT_2(name, ...) ACCRUE_GRADIENT_1(name) ACCRUE_GRADIENT(name, 1)
#define ACCRUE_GRADIENT_3(name, ...) ACCRUE_GRADIENT_2(name) ACCRUE_GRADIENT(name, 2)
  switch (gradient) { ACCRUE_FORMULAS(ACCRUE_GRADIENT_1, ACCRUE_GRADIENT_2, ACCRUE_GRADIENT_3) }
#undef ACCRUE_GRADIENT
#undef ACCRUE_GRADIENT_1
#undef ACCRUE_GRADIENT_2
#undef ACCRUE_GRADIENT_3
  return p.d;
}

// An array that is read in an order, or none.
template <class W>
struct Source {
  const void* array = nullptr;
  DType dtype = dtype_of<W>();
  Strided strided;

  Source(const View& x, const Shape& shape, const IndexOrder& order)
      : array(x.data), dtype(x.dtype), strided(order.of(x.shape, shape)) {}
  __device__ W at(int64_t i) const {
    if (!array) return 0;
    const int64_t element = strided.at(i);
    if (dtype == dtype_of<W>()) return static_cast<const W*>(array)[element];
    if (dtype == DType::i32) return W(static_cast<const int32_t*>(array)[element]);
    if (dtype == DType::u8) return W(static_cast<const uint8_t*>(array)[element]);
    if constexpr (std::is_same_v<W, float>) {
      if (dtype == DType::f16) return static_cast<const Half*>(array)[element];
      if (dtype == DType::bf16) return static_cast<const BFloat16*>(array)[element];
    }
    return 0;
  }
};

// An array of which each thread writes elements of its own, or adds to them.
template <class W>
struct Target {
  void* array;
  DType dtype;
  float beta;

  explicit Target(const GradTarget& to)
      : array(to.grad.data), dtype(to.grad.dtype), beta(to.beta) {}
  __device__ void store(int64_t i, W value) const {
    if constexpr (std::is_same_v<W, float>) {
      if (dtype == DType::f16) return store_in(static_cast<Half*>(array)[i], value);
      if (dtype == DType::bf16) return store_in(static_cast<BFloat16*>(array)[i], value);
    }
    store_in(static_cast<W*>(array)[i], value);
  }

 private:
  template <class T>
  __device__ void store_in(T& to, W value) const {
    to = blend(value, beta, to);
  }
};

template <class W>
struct Scalars {
  W s, t;
  explicit Scalars(const Calculation& f)
      : s(static_cast<W>(f.scalars[0])), t(static_cast<W>(f.scalars[1])) {}
};

// A thread has numbers a grid apart, so that a warp's accesses are contiguous, but where
// operands are repeated, which a cache holds.
template <class W>
__global__ void __launch_bounds__(block_threads)
    value_kernel(Target<W> y, int64_t n, Source<W> a, Source<W> b, Source<W> c, Formula formula,
                 Scalars<W> scalars) {
  for (int64_t i = first_item(); i < n; i += item_stride())
    y.store(i,
            value_at(formula, Point<W>{0, a.at(i), b.at(i), c.at(i), 0, {scalars.s, scalars.t}}));
}

// The terms of a gradient.
template <class W>
struct Terms {
  Source<W> d, a, b, c, y;
  int gradient;
  Scalars<W> scalars;

  Terms(const View& dy, const KeptValues& values, const IndexOrder& order, const Calculation& f,
        int operand)
      : d(dy, dy.shape, order),
        a(values.a, dy.shape, order),
        b(values.b, dy.shape, order),
        c(values.c, dy.shape, order),
        y(values.y, dy.shape, order),
        gradient(gradient_of(f.formula, operand)),
        scalars(f) {}
  __device__ W at(int64_t i) const {
    return gradient_at(
        gradient, Point<W>{d.at(i), a.at(i), b.at(i), c.at(i), y.at(i), {scalars.s, scalars.t}});
  }
};

// Likewise. One thread reads and then writes an element: dx may be dy.
template <class W>
__global__ void __launch_bounds__(block_threads)
    gradient_kernel(Target<W> dx, int64_t n, Terms<W> terms) {
  for (int64_t i = first_item(); i < n; i += item_stride()) dx.store(i, terms.at(i));
}

// A block has a piece of neighbouring sums, with `members` threads for each. Its threads are laid
// out so that a warp reads neighbouring terms, whether they are of one sum or of several; the
// members' sums are added in shared memory, in pairs.
template <class W>
__global__ void __launch_bounds__(block_threads)
    sum_kernel(Target<W> dx, double* partials, Terms<W> terms, BroadcastSums of) {
  __shared__ double sums[block_threads];
  const int columns = block_threads / of.members, thread = static_cast<int>(threadIdx.x);
  const int column = of.sums_inside ? thread % columns : thread / of.members;
  const int member = of.sums_inside ? thread / columns : thread % of.members;
  const int64_t o = int64_t{blockIdx.x} * columns + column, p = blockIdx.y;
  RunningSum<W> sum;
  if (o < of.O)
    for (int64_t r = of.begin(p) + member; r < of.begin(p + 1); r += of.members)
      sum.add(terms.at(of.sums_inside ? r * of.O + o : o * of.R + r));
  const int at = member * columns + column;
  sums[at] = sum.total();
  for (int half = of.members / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) sums[at] += sums[at + half * columns];
  }
  if (member != 0 || o >= of.O) return;
  if (of.pieces == 1) dx.store(o, static_cast<W>(sums[at]));
  else partials[p * of.O + o] = sums[at];
}

// A thread adds the pieces of a sum, in their order.
template <class W>
__global__ void __launch_bounds__(block_threads)
    pieces_kernel(Target<W> dx, const double* partials, int64_t O, int64_t pieces) {
  for (int64_t o = first_item(); o < O; o += item_stride()) {
    double sum = 0;
    for (int64_t p = 0; p < pieces; ++p) sum += partials[p * O + o];
    dx.store(o, static_cast<W>(sum));
  }
}

template <class W>
void sum_terms(const GradTarget& dx, const Terms<W>& terms, const BroadcastSums& of,
               const View& scratch) {
  if (of.O == 0) return;
  const int64_t columns = block_threads / of.members;
  double* const partials = of.pieces > 1 ? scratch.as<double>() : nullptr;
  enqueue({dim3(static_cast<unsigned>(ceil_div(of.O, columns)), static_cast<unsigned>(of.pieces))},
          sum_kernel<W>, Target<W>(dx), partials, terms, of);
  if (partials)
    enqueue(grid_over(of.O), pieces_kernel<W>, Target<W>(dx), partials, of.O, of.pieces);
}

}  // namespace

void elementwise_forward(View y, View a, View b, View c, Calculation f) {
  if (y.numel() == 0) return;
  dispatch_wide(wide(y.dtype), [&]<class W>() {
    const IndexOrder order;
    enqueue(grid_over(y.numel()), value_kernel<W>, Target<W>({y, 0}), y.numel(),
            Source<W>(a, y.shape, order), Source<W>(b, y.shape, order),
            Source<W>(c, y.shape, order), f.formula, Scalars<W>(f));
  });
}

void elementwise_backward(GradTarget dx, View dy, KeptValues values, View scratch, Calculation f,
                          int operand) {
  if (is_unchanged(dx, dy, f, operand)) return;
  const BroadcastSums sums(dx.grad.shape, dy.shape, Device::cuda);
  dispatch_wide(wide(dy.dtype), [&]<class W>() {
    const Terms<W> terms(dy, values, sums.order, f, operand);
    if (!sums.is_none()) sum_terms(dx, terms, sums, scratch);
    else if (dy.numel() > 0)
      enqueue(grid_over(dy.numel()), gradient_kernel<W>, Target<W>(dx), dy.numel(), terms);
  });
}

}  // namespace accrue::cuda
