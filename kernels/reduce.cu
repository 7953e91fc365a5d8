#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"
#include "kernels/detail/reduce_kernels.h"

namespace accrue::cuda {
namespace {

// Sums and searches of at least so many terms that lie side by side take a block each; of others a
// thread, so that by columns a warp reads stretches of rows.
constexpr int64_t terms_of_block = 128;

bool takes_blocks(const Reduction& r) { return r.by_rows && r.terms / r.pieces >= terms_of_block; }

// A block of a grid over items, which have a block each and as many turns as that takes.
template <class... Parameters, class... Args>
void enqueue_blocks(int64_t items, void (*kernel)(Parameters...), Args&&... args) {
  constexpr int64_t most = 1 << 20;
  if (items > 0)
    enqueue({dim3(static_cast<unsigned>(std::min(items, most)))}, kernel,
            std::forward<Args>(args)...);
}

// Where the sum of an item goes: to the scratch of pieces, or divided to y.
template <class T>
struct SumTarget {
  T* y;
  double* of_pieces;
  double divisor;

  __device__ void put(int64_t item, double sum) const {
    if (of_pieces) of_pieces[item] = sum;
    else y[item] = T(static_cast<Wide<T>>(sum / divisor));
  }
};

template <class W>
__device__ W term_of(W x, W center, bool is_squared) {
  return is_squared ? (x - center) * (x - center) : x;
}

// A thread adds up pieces of outputs, a grid apart: neighbours in a warp have neighbouring outputs.
template <class Y, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    sum_by_thread_kernel(SumTarget<Y> to, const T* x, const W* mean, Reduction r) {
  const int64_t items = r.outputs * r.pieces;
  for (int64_t i = first_item(); i < items; i += item_stride()) {
    const int64_t o = i % r.outputs, piece = i / r.outputs, first = r.offset_of_output(o);
    const W center = mean ? mean[o] : W(0);
    RunningSum<W> sum;
    for (int64_t t = r.first_term(piece); t < r.first_term(piece + 1); ++t)
      sum.add(term_of<W>(x[first + r.offset_of_term(t)], center, mean != nullptr));
    to.put(o * r.pieces + piece, sum.sum());
  }
}

// A block adds up pieces of outputs; a thread's terms are a block apart.
template <class Y, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    sum_by_block_kernel(SumTarget<Y> to, const T* x, const W* mean, Reduction r) {
  const int64_t items = r.outputs * r.pieces;
  for (int64_t i = blockIdx.x; i < items; i += gridDim.x) {
    const int64_t o = i / r.pieces, piece = i % r.pieces, first = r.offset_of_output(o);
    const W center = mean ? mean[o] : W(0);
    RunningSum<W> sum;
    for (int64_t t = r.first_term(piece) + threadIdx.x; t < r.first_term(piece + 1);
         t += block_threads)
      sum.add(term_of<W>(x[first + r.offset_of_term(t)], center, mean != nullptr));
    const double total = block_sum<block_threads>(sum.sum());
    if (threadIdx.x == 0) to.put(i, total);
  }
}

// A thread adds up the pieces of outputs, in order.
template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_pieces_kernel(SumTarget<T> to, const double* of_pieces, int64_t outputs, int64_t pieces) {
  for (int64_t o = first_item(); o < outputs; o += item_stride()) {
    double sum = 0;
    for (int64_t p = 0; p < pieces; ++p) sum += of_pieces[o * pieces + p];
    to.put(o, sum);
  }
}

template <class Y, class T>
void sum_into(Y* y, View scratch, const T* x, const Wide<T>* mean, const Reduction& r,
              double divisor) {
  const int64_t items = r.outputs * r.pieces;
  double* const of_pieces = r.pieces == 1 ? nullptr : scratch.as<double>();
  const SumTarget<Y> to{y, of_pieces, divisor};
  if (takes_blocks(r)) enqueue_blocks(items, sum_by_block_kernel<Y, T>, to, x, mean, r);
  else enqueue(grid_over(items), sum_by_thread_kernel<Y, T>, to, x, mean, r);
  if (of_pieces)
    enqueue(grid_over(r.outputs), sum_pieces_kernel<Y>, SumTarget<Y>{y, nullptr, divisor},
            of_pieces, r.outputs, r.pieces);
}

// Where the elements of x lie, by their place among outputs and terms.
struct Place {
  int64_t o, t, at;

  // Neighbours in a warp are neighbours in x.
  __device__ Place(const Reduction& r, int64_t i)
      : o(r.by_rows ? i / r.terms : i % r.outputs), t(r.by_rows ? i % r.terms : i / r.outputs) {
    at = r.offset_of_output(o) + r.offset_of_term(t);
  }
};

// A thread has elements of dx, a grid apart.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    sums_backward_kernel(T* dx, const T* dy, const T* x, const W* mean, Reduction r, W factor) {
  for (int64_t i = first_item(); i < r.outputs * r.terms; i += item_stride()) {
    const Place p(r, i);
    W value = factor * dy[p.o];
    if (mean) value *= x[p.at] - mean[p.o];
    store(dx[p.at], value, std::bool_constant<accumulate>{});
  }
}

// The larger of two, or the earlier of equal ones: in whatever order they come.
template <class W>
struct Best {
  W value;
  int64_t term;

  __device__ void take(W x, int64_t t) {
    const bool equal = x == value || (x != x && value != value);
    if (is_larger(x, value) || (equal && t < term)) *this = {x, t};
  }
};

template <class T>
struct ExtremeTarget {
  T* y;
  int32_t* index;
  double* of_pieces;
  Extreme which;

  __device__ void put(int64_t item, const Best<Wide<T>>& best) const {
    if (of_pieces) {
      of_pieces[2 * item] = best.value;
      of_pieces[2 * item + 1] = static_cast<double>(best.term);
      return;
    }
    if (y) y[item] = T(sign_of<Wide<T>>(which) * best.value);
    index[item] = static_cast<int32_t>(best.term);
  }
};

// A thread searches pieces of outputs, as one adds them up.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    search_by_thread_kernel(ExtremeTarget<T> to, const T* x, Reduction r) {
  const W sign = sign_of<W>(to.which);
  const int64_t items = r.outputs * r.pieces;
  for (int64_t i = first_item(); i < items; i += item_stride()) {
    const int64_t o = i % r.outputs, piece = i / r.outputs, first = r.offset_of_output(o);
    const int64_t begin = r.first_term(piece);
    Best<W> best{sign * x[first + r.offset_of_term(begin)], begin};
    for (int64_t t = begin + 1; t < r.first_term(piece + 1); ++t)
      best.take(sign * x[first + r.offset_of_term(t)], t);
    to.put(o * r.pieces + piece, best);
  }
}

// A block searches pieces of outputs: its threads their terms, and a tree of pairs of threads what
// these have found. Threads without terms begin with the first.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    search_by_block_kernel(ExtremeTarget<T> to, const T* x, Reduction r) {
  __shared__ W values[block_threads];
  __shared__ int64_t terms[block_threads];
  const W sign = sign_of<W>(to.which);
  const int64_t items = r.outputs * r.pieces;
  for (int64_t i = blockIdx.x; i < items; i += gridDim.x) {
    const int64_t o = i / r.pieces, piece = i % r.pieces, first = r.offset_of_output(o);
    const int64_t begin = r.first_term(piece);
    Best<W> best{sign * x[first + r.offset_of_term(begin)], begin};
    for (int64_t t = begin + threadIdx.x; t < r.first_term(piece + 1); t += block_threads)
      best.take(sign * x[first + r.offset_of_term(t)], t);
    __syncthreads();  // the arrays may still be being read for the item before
    values[threadIdx.x] = best.value;
    terms[threadIdx.x] = best.term;
    __syncthreads();
    for (unsigned distance = block_threads / 2; distance > 0; distance /= 2) {
      if (threadIdx.x < distance) {
        best.take(values[threadIdx.x + distance], terms[threadIdx.x + distance]);
        values[threadIdx.x] = best.value;
        terms[threadIdx.x] = best.term;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) to.put(i, best);
  }
}

// A thread has outputs, a grid apart. With the second bound, registers do not spill for the sake of
// more blocks.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads, 2)
    best_of_pieces_kernel(ExtremeTarget<T> to, const double* of_pieces, int64_t outputs,
                          int64_t pieces) {
  for (int64_t o = first_item(); o < outputs; o += item_stride()) {
    const double* const from = of_pieces + 2 * o * pieces;
    Best<W> best{static_cast<W>(from[0]), static_cast<int64_t>(from[1])};
    for (int64_t p = 1; p < pieces; ++p)
      best.take(static_cast<W>(from[2 * p]), static_cast<int64_t>(from[2 * p + 1]));
    to.put(o, best);
  }
}

// A thread has elements of dx, a grid apart.
template <class T>
__global__ void __launch_bounds__(block_threads)
    write_extremes_backward_kernel(T* dx, const T* dy, const int32_t* index, Reduction r) {
  for (int64_t i = first_item(); i < r.outputs * r.terms; i += item_stride()) {
    const Place p(r, i);
    dx[p.at] = p.t == index[p.o] ? dy[p.o] : T(Wide<T>(0));
  }
}

// A thread has outputs, a grid apart, and adds to the one element of each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    add_extremes_backward_kernel(T* dx, const T* dy, const int32_t* index, Reduction r) {
  for (int64_t o = first_item(); o < r.outputs; o += item_stride())
    store(dx[r.offset_of_output(o) + r.offset_of_term(index[o])], widen(dy[o]), std::true_type{});
}

// A thread has lines of the dimension, a grid apart; neighbours have neighbouring lines.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    cumsum_kernel(T* y, const T* x, Dimension d, int64_t first, int64_t step) {
  for (int64_t i = first_item(); i < d.outer * d.inner; i += item_stride()) {
    const int64_t begin = i / d.inner * d.size * d.inner + i % d.inner;
    double sum = 0;
    for (int64_t s = 0; s < d.size; ++s) {
      const int64_t at = begin + (first + s * step) * d.inner;
      sum += x[at];
      store(y[at], static_cast<Wide<T>>(sum), std::bool_constant<accumulate>{});
    }
  }
}

}  // namespace

void reduce_sums(View y, View scratch, View x, View mean, Reduction r, double divisor) {
  dispatch_floating(
      x.dtype, [&]<class T, class W = Wide<T>>() {
        const W* const center = mean.data ? mean.as<const W>() : nullptr;
        if (y.dtype == x.dtype) sum_into(y.as<T>(), scratch, x.as<const T>(), center, r, divisor);
        else sum_into(y.as<W>(), scratch, x.as<const T>(), center, r, divisor);
      });
}

void reduce_sums_backward(GradTarget dx, View dy, View x, View mean, Reduction r, double factor) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        with_beta(dx.beta, [&](auto accumulate) {
          enqueue(grid_over(dx.grad.numel()), sums_backward_kernel<accumulate.value, T>,
                  dx.grad.as<T>(), dy.as<const T>(), mean.data ? x.as<const T>() : nullptr,
                  mean.data ? mean.as<const W>() : nullptr, r, static_cast<W>(factor));
        });
      });
}

void reduce_extremes(View y, View index, View scratch, View x, Reduction r, Extreme which) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t items = r.outputs * r.pieces;
    double* const of_pieces = r.pieces == 1 ? nullptr : scratch.as<double>();
    ExtremeTarget<T> to{y.data ? y.as<T>() : nullptr, index.as<int32_t>(), of_pieces, which};
    if (takes_blocks(r)) enqueue_blocks(items, search_by_block_kernel<T>, to, x.as<const T>(), r);
    else enqueue(grid_over(items), search_by_thread_kernel<T>, to, x.as<const T>(), r);
    if (!of_pieces) return;
    to.of_pieces = nullptr;
    enqueue(grid_over(r.outputs), best_of_pieces_kernel<T>, to, of_pieces, r.outputs, r.pieces);
  });
}

void reduce_extremes_backward(GradTarget dx, View dy, View index, Reduction r) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int32_t* const places = index.as<const int32_t>();
    if (dx.beta == 0)
      enqueue(grid_over(dx.grad.numel()), write_extremes_backward_kernel<T>, dx.grad.as<T>(),
              dy.as<const T>(), places, r);
    else
      enqueue(grid_over(r.outputs), add_extremes_backward_kernel<T>, dx.grad.as<T>(),
              dy.as<const T>(), places, r);
  });
}

void cumsum(GradTarget y, View x, Dimension d, Direction direction) {
  const bool forward = direction == Direction::from_first;
  const int64_t first = forward ? 0 : d.size - 1, step = forward ? 1 : -1;
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(y.beta, [&](auto accumulate) {
      enqueue(grid_over(d.outer * d.inner), cumsum_kernel<accumulate.value, T>, y.grad.as<T>(),
              x.as<const T>(), d, first, step);
    });
  });
}

}  // namespace accrue::cuda
