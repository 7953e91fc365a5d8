#include <limits>

#include "kernels/detail/counted.cuh"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/linear_cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.cuh"
#include "kernels/detail/matmul.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

// A block handles a row, which it reads once for the softmax and once for the gradient.
constexpr int logit_threads = 512;
// Two blocks of a multiprocessor read while others compute, and a thread waits for several vectors
// at a time. In float64, which is for tests, nvcc would call exp instead of inlining it so often.
template <class T>
constexpr int logit_blocks = sizeof(T) == 8 ? 1 : 2;
template <class T>
constexpr int logit_width = sizeof(T) == 8 ? 1 : 16 / sizeof(T);
template <class T>
constexpr int logit_loads = sizeof(T) == 8 ? 1 : 4;

// The logits of a row that products compute: all of them, or as many as make a multiple of 16 bytes
// in every type. For such extents alone cuBLASLt always has its kernels for tensor cores; others
// take several times as long. The kernels here compute the others, at most 7, together with their
// part of dx and their rows of dw. In 16 bits they need room for the product that makes dx.
int64_t multiplied_logits(const LinearCrossEntropy& in) {
  constexpr int64_t step = 8, least = 64;
  const bool has_room = !is_16_bit_dtype(in.x.dtype) || in.E() <= in.row_stride() / 2;
  const bool are_all =
      in.V() < least || !has_room || is_stored_otherwise(in.w.shape, in.w.dtype, in.x.dtype);
  return are_all ? in.V() : in.V() / step * step;
}

// Some rows of logits, with their labels, operands, and the results for each row.
template <class T, class W = Wide<T>>
struct LogitRows {
  const int32_t* labels;
  W* softmax;  // [rows, 2]; null if it is not kept
  W* logits;
  int64_t V, stride;
  const T *x, *last_w;  // last_w: the rows of w from `multiplied` on
  int64_t multiplied, E;
  int64_t begin;  // the first row's number
  bool leaves_out, leaves_own_out;

  LogitRows(const LinearCrossEntropy& in, int64_t begin)
      : labels(in.labels.as<const int32_t>() + begin),
        softmax(in.softmax.data ? in.softmax.as<W>() + 2 * begin : nullptr),
        logits(in.logits.as<W>()),
        V(in.V()),
        stride(in.row_stride()),
        x(in.x.as<const T>() + begin * in.E()),
        last_w(nullptr),
        multiplied(multiplied_logits(in)),
        E(in.E()),
        begin(begin),
        leaves_out(in.leaves_out),
        leaves_own_out(in.own == OwnLogit::left_out) {
    if (multiplied < V) last_w = in.w.as<const T>() + multiplied * E;
  }

  __device__ W* row(int64_t r) const { return logits + r * stride; }
  __device__ bool leaves_out_row(int64_t r) const { return leaves_out && labels[r] == not_judged; }
  __device__ bool in_range(int32_t label) const { return 0 <= label && label < V; }

  // Computes the logits of a row that the product has left out, one for each warp of the block, and
  // leaves out the row's own logit. The whole block must call it.
  __device__ void complete(int64_t r) const {
    if (multiplied == V && !leaves_own_out) return;
    const int warp = threadIdx.x / warp_threads, lane = threadIdx.x % warp_threads;
    const int64_t own = leaves_own_out ? begin + r : -1, v = multiplied + warp;
    if (v < V) {
      RunningSum<W> sum;
      for (int64_t e = lane; e < E; e += warp_threads)
        sum.add(widen(x[r * E + e]) * widen(last_w[warp * E + e]));
      const W logit = warp_sum(sum.total());
      if (lane == 0 && v != own) row(r)[v] = logit;
    }
    if (threadIdx.x == 0 && leaves_own_out) row(r)[own] = -std::numeric_limits<W>::infinity();
    __syncthreads();
  }
};

// Calls use(tile, part) for a thread's share of a row, which is aligned to vectors. tile[l] is the
// row's vector number part + l * logit_threads. The vectors of a tile are loaded together: `loads`
// of them, one near the end of the row, and at last perhaps one element.
template <int width, int loads, class W, class Use>
__device__ void for_each_tile(const W* row, int64_t V, const Use& use) {
  const int64_t vectors = V / width;
  int64_t part = threadIdx.x;
  if constexpr (loads > 1)
    for (; part + (loads - 1) * logit_threads < vectors; part += loads * logit_threads) {
      Vector<W, width> tile[loads];
      for (int l = 0; l < loads; ++l) tile[l] = load_vector<width>(row, part + l * logit_threads);
      use(tile, part);
    }
  for (; part < vectors; part += logit_threads) {
    Vector<W, width> tile[1] = {load_vector<width>(row, part)};
    use(tile, part);
  }
  if constexpr (width > 1) {
    const int64_t v = vectors * width + threadIdx.x;
    if (v >= V) return;
    Vector<W, 1> tile[1] = {{{row[v]}}};
    use(tile, v);
  }
}

// Calls use(v, row[v]) for a thread's share of a row.
template <class W, class Use>
__device__ void for_each_logit(const W* row, int64_t V, const Use& use) {
  for_each_tile<16 / sizeof(W), 1>(row, V,
                                   [&]<int width>(const Vector<W, width>(&tile)[1], int64_t part) {
                                     for (int k = 0; k < width; ++k)
                                       use(part * width + k, tile[0].values[k]);
                                   });
}

// The largest of the logits that a thread has seen, and the sum of exp(logit - maximum) over those
// that are not the label's. A tile with a larger logit scales the sum down.
template <class W>
class ThreadSoftmax {
 public:
  __device__ explicit ThreadSoftmax(int32_t label) : label_(label) {}

  template <int count, int width>
  __device__ void add(Vector<W, width> (&tile)[count], int64_t part) {
    W largest = maximum_;
    for (const auto& vector : tile)
      for (const W logit : vector.values) largest = logit > largest ? logit : largest;
    if (largest > maximum_) {
      sum_ *= std::exp(maximum_ - largest);
      maximum_ = largest;
    }
    const W from = maximum_ == -infinity ? W(0) : maximum_;
    W sum = 0;
    for (int l = 0; l < count; ++l) {
      if (part + l * logit_threads == label_ / width) leave_out(tile[l], label_ % width);
      W of_vector = 0;
      for (const W logit : tile[l].values) of_vector += std::exp(logit - from);
      sum += of_vector;
    }
    sum_ += sum;
  }

  __device__ W maximum() const { return maximum_; }
  // The sum of exp(logit - maximum), where `maximum` is the largest of all threads.
  __device__ W sum(W maximum) const {
    return maximum_ == maximum ? sum_ : sum_ * std::exp(maximum_ - maximum);
  }

 private:
  static constexpr W infinity = std::numeric_limits<W>::infinity();

  template <int width>
  __device__ static void leave_out(Vector<W, width>& vector, int place) {
    for (int k = 0; k < width; ++k)
      if (k == place) vector.values[k] = -infinity;
  }

  int32_t label_;  // negative for none
  W maximum_ = -infinity, sum_ = 0;
};

// The softmax of a row, in every thread of the block, and its loss, in thread 0: NaN for a label
// out of range. The whole block must call it. No thread reads the row any more when one returns.
template <class T, class W = Wide<T>>
__device__ RowSoftmax<W> softmax_of_row(double& loss, const LogitRows<T>& rows, int64_t r) {
  rows.complete(r);
  const int32_t label = rows.labels[r];
  const W* row = rows.row(r);
  const bool in_range = rows.in_range(label);
  ThreadSoftmax<W> own(in_range ? label : -1);
  for_each_tile<logit_width<W>, logit_loads<W>>(
      row, rows.V, [&](auto& tile, int64_t part) { own.add(tile, part); });
  const W of_label = in_range ? row[label] : W(0);
  const W maximum = block_max<logit_threads>(own.maximum());
  RowSoftmax<W> softmax{maximum, block_sum<logit_threads>(own.sum(maximum))};
  if (in_range) softmax.rest += RowSoftmax<W>::term(of_label, maximum, true);
  if (threadIdx.x == 0)
    loss = in_range ? double(softmax.loss(of_label)) : std::numeric_limits<double>::quiet_NaN();
  return softmax;
}

// Computes the softmax and the loss of a row, 0 if the row is left out. `right`, if given, becomes
// 1 or 0. Only whole blocks return early.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(logit_threads, logit_blocks<T>)
    logit_softmax_kernel(double* losses, int32_t* right, LogitRows<T> rows) {
  const int64_t r = blockIdx.x, V = rows.V;
  if (rows.leaves_out_row(r)) {
    if (threadIdx.x == 0) losses[r] = 0;
    return;
  }
  const RowSoftmax<W> softmax = softmax_of_row(losses[r], rows, r);
  if (threadIdx.x == 0) {
    rows.softmax[2 * r] = softmax.maximum;
    rows.softmax[2 * r + 1] = softmax.rest;
  }
  if (!right) return;
  const int32_t label = rows.labels[r];
  const W* row = rows.row(r);
  const bool in_range = rows.in_range(label);
  int outdone = !in_range;
  if (in_range)
    for_each_logit(row, V, [&, of_label = row[label]](int64_t v, W logit) {
      outdone += outdoes(logit, of_label, v, label);
    });
  outdone = block_sum<logit_threads>(outdone);
  if (threadIdx.x == 0) right[r] = outdone == 0;
}

// Calls use(vector, part) for a thread's share of a row, which is aligned to vectors, in tiles. The
// whole block loads a tile before any of its threads uses it, and at last elements one by one.
template <int width, int loads, class W, class Use>
__device__ void for_each_in_step(const W* row, int64_t V, const Use& use) {
  const int64_t vectors = V / width;
  for (int64_t first = 0; first < vectors; first += loads * logit_threads) {
    Vector<W, width> tile[loads] = {};
    const auto part = [&](int l) { return first + l * logit_threads + threadIdx.x; };
    for (int l = 0; l < loads; ++l)
      if (part(l) < vectors) tile[l] = load_vector<width>(row, part(l));
    __syncthreads();
    for (int l = 0; l < loads; ++l)
      if (part(l) < vectors) use(tile[l], part(l));
  }
  const int64_t v = vectors * width + threadIdx.x;
  const Vector<W, 1> last{{v < V ? row[v] : W(0)}};
  __syncthreads();
  if (v < V) use(last, v);
}

// out[v] = f(row[v], v is the label) for a row. out begins where the row does. If its elements are
// narrower, a tile of them lies within the tiles of the row that the block has loaded. The whole
// block must call it.
template <class T, class W, class F>
__device__ void write_over_row(T* out, const W* row, int64_t V, int32_t label, const F& f) {
  constexpr int full = logit_width<T>, loads = (logit_loads<T> + 1) / 2;
  const auto write = [&]<int width>(const Vector<W, width>& in, int64_t part) {
    Vector<T, width> values;
    const int place = part == label / width ? label % width : -1;
    for (int k = 0; k < width; ++k) values.values[k] = f(in.values[k], k == place);
    store_vector(out, part, values);
  };
  if constexpr (sizeof(T) < sizeof(W)) for_each_in_step<full, loads>(row, V, write);
  else
    for_each_tile<full, loads>(
        row, V, [&]<int width, int count>(const Vector<W, width>(&tile)[count], int64_t part) {
          for (int l = 0; l < count; ++l) write(tile[l], part + l * logit_threads);
        });
}

// The seed for a gradient that backward will multiply by the gradient of the loss.
template <class W>
struct UnitSeed {
  __device__ W dloss() const { return W(1); }
  __device__ void add_loss() const {}
};

// d = 0 over the logits of a row that is left out.
template <class T>
__device__ void clear_row(const LogitRows<T>& rows, int64_t r) {
  using W = Wide<T>;
  write_over_row(reinterpret_cast<T*>(rows.row(r)), rows.row(r), rows.V, -1,
                 [](W, bool) { return T(W(0)); });
}

// d = dloss/n * (softmax - onehot) for a row, over its logits. At the label no digits cancel,
// because the sum of the other terms is computed separately.
template <class T, class W = Wide<T>>
__device__ void differentiate_row(const LogitRows<T>& rows, int64_t r, const RowSoftmax<W>& softmax,
                                  W dloss, const Counted& counted) {
  const int32_t label = rows.labels[r];
  const W scale =
      rows.in_range(label) ? W(counted.mean_of(dloss)) : std::numeric_limits<W>::quiet_NaN();
  const W factor = scale / (1 + softmax.rest);
  write_over_row(reinterpret_cast<T*>(rows.row(r)), rows.row(r), rows.V, label,
                 [&](W logit, bool is_label) {
                   const W term = std::exp(logit - softmax.maximum);
                   return T(factor * (is_label ? -(softmax.rest + (1 - term)) : term));
                 });
}

template <class T, class AnySeed, class W = Wide<T>>
__global__ void __launch_bounds__(logit_threads, logit_blocks<T>)
    logit_gradient_kernel(AnySeed seed, bool adds_loss, LogitRows<T> rows, Counted counted) {
  const int64_t r = blockIdx.x;
  if (adds_loss && r == 0 && threadIdx.x == 0) seed.add_loss();
  if (rows.leaves_out_row(r)) return clear_row(rows, r);
  rows.complete(r);
  const RowSoftmax<W> softmax{rows.softmax[2 * r], rows.softmax[2 * r + 1]};
  differentiate_row(rows, r, softmax, seed.dloss(), counted);
}

// The same, but finds the softmax and the loss of the row from the same logits.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(logit_threads, logit_blocks<T>)
    logit_loss_and_gradient_kernel(double* losses, Seed<W> seed, LogitRows<T> rows,
                                   Counted counted) {
  const int64_t r = blockIdx.x;
  if (rows.leaves_out_row(r)) {
    if (threadIdx.x == 0) losses[r] = 0;
    return clear_row(rows, r);
  }
  const RowSoftmax<W> softmax = softmax_of_row(losses[r], rows, r);
  differentiate_row(rows, r, softmax, seed.dloss(), counted);
}

// The loss, from the losses of the rows in one block, which then adds it as the seed says.
template <class W>
__global__ void __launch_bounds__(block_threads)
    take_loss_kernel(W* loss, const double* losses, int64_t rows, Counted counted, Seed<W> seed) {
  const double sum = sum_in_block(losses, rows);
  if (threadIdx.x != 0) return;
  *loss = static_cast<W>(counted.mean_of(sum));
  seed.add_loss();
}

// One block does this, so that the order of the sums is fixed.
__global__ void __launch_bounds__(logit_threads, 1)
    add_logit_scores_kernel(double* score, const double* losses, const int32_t* right,
                            const int32_t* labels, int64_t rows) {
  double loss = 0;
  int counted = 0, are_right = 0;
  for (int64_t r = threadIdx.x; r < rows; r += logit_threads) {
    if (labels[r] == not_judged) continue;
    loss += losses[r];
    ++counted;
    are_right += right[r];
  }
  loss = block_sum<logit_threads>(loss);
  counted = block_sum<logit_threads>(counted);
  are_right = block_sum<logit_threads>(are_right);
  if (threadIdx.x != 0) return;
  score[0] += loss;
  score[1] += counted;
  score[2] += are_right;
}

Grid a_block_for_each(int64_t rows) { return {dim3(static_cast<unsigned>(rows)), logit_threads}; }

// dw[v, e] = sum_r d[r, v] * x[r, e] for the last rows of w. A block sums a tile of a row; its warp
// y reads rows y, y + 32, ... The block then reads the warps' sums transposed, so that each warp
// adds up one element by shuffles. The unused column avoids bank conflicts.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(warp_threads* warp_threads)
    last_dw_kernel(W* dw, const T* d, int64_t d_stride, const T* x, int64_t rows, int64_t E) {
  __shared__ W of_warp[warp_threads][warp_threads + 1];
  const int64_t first = int64_t{blockIdx.x} * warp_threads, e = first + threadIdx.x;
  RunningSum<W> sum;
  if (e < E)
    for (int64_t r = threadIdx.y; r < rows; r += warp_threads)
      sum.add(widen(d[r * d_stride + blockIdx.y]) * widen(x[r * E + e]));
  of_warp[threadIdx.y][threadIdx.x] = sum.total();
  __syncthreads();
  const W element = warp_sum(of_warp[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && first + threadIdx.y < E)
    store(dw[blockIdx.y * E + first + threadIdx.y], element, std::bool_constant<accumulate>{});
}

// dx[r, e] = product[r, e] + sum_v d[r, v] * w[v, e], over the last rows v of w.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    last_dx_kernel(T* dx, const W* product, int64_t product_stride, const T* d, int64_t d_stride,
                   const T* w, int64_t count, int64_t E, int64_t size) {
  for (int64_t i = first_item(); i < size; i += item_stride()) {
    const int64_t r = i / E, e = i % E;
    W sum = product ? product[r * product_stride + e] : W(0);
    for (int64_t v = 0; v < count; ++v) sum += widen(d[r * d_stride + v]) * widen(w[v * E + e]);
    store(dx[i], sum, std::bool_constant<accumulate>{});
  }
}

// The first rows of logits or of their gradient, without what no product computes.
View multiplied(const View& rows, int64_t size, const LinearCrossEntropy& in) {
  return {rows.data, {size, multiplied_logits(in)}, rows.dtype, rows.device};
}

View multiplied_w(const LinearCrossEntropy& in) {
  const int64_t count = multiplied_logits(in);
  return count == in.V() ? in.w : rows_of(in.w, 0, count);
}

// The first rows of d's elements that no product reads.
template <class T>
const T* last_of(View d, const LinearCrossEntropy& in) {
  return d.as<const T>() + multiplied_logits(in);
}

void compute_logits(const LinearCrossEntropy& in, int64_t begin, int64_t size) {
  matmul({multiplied(in.logits, size, in), 0}, rows_of(in.x, begin, size), multiplied_w(in),
         Transpose::no, Transpose::yes, in.workspace, {.c = in.row_stride()});
}

// dw = d^T x + beta * dw for the rows of x [size, E], whose gradients by their logits are in d.
void add_dw(GradTarget dw, View d, View x, const LinearCrossEntropy& in) {
  const int64_t size = x.shape[0], E = in.E(), first = multiplied_logits(in);
  matmul({rows_of(dw.grad, 0, first), dw.beta}, multiplied(d, size, in), x, Transpose::yes,
         Transpose::no, in.workspace, {.a = d.shape[1]});
  if (first == in.V()) return;
  const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(E, warp_threads)),
                       static_cast<unsigned>(in.V() - first)),
                  dim3(warp_threads, warp_threads)};
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(dw.beta, [&](auto accumulate) {
      enqueue(grid, last_dw_kernel<accumulate.value, T>, dw.grad.as<Wide<T>>() + first * E,
              last_of<T>(d, in), d.shape[1], x.as<const T>(), size, E);
    });
  });
}

// dx = d w + beta * dx for dx [size, E]. In 16 bits the product waits in the second half of the
// rows of logits, behind d, until the last terms are added, so that dx is rounded once.
void compute_dx(GradTarget dx, View d, const LinearCrossEntropy& in) {
  const int64_t size = dx.grad.shape[0], E = in.E(), count = in.V() - multiplied_logits(in);
  const bool is_apart = count > 0 && is_16_bit_dtype(dx.grad.dtype);
  const int64_t stride = in.row_stride();
  void* const behind_d =
      static_cast<char*>(in.logits.data) + stride / 2 * int64_t(size_of(in.logits.dtype));
  const View product{behind_d, {size, E}, in.logits.dtype, in.logits.device};
  matmul(is_apart ? GradTarget{product, 0} : dx, multiplied(d, size, in), multiplied_w(in),
         Transpose::no, Transpose::no, in.workspace, {.c = is_apart ? stride : 0, .a = d.shape[1]});
  if (count == 0) return;
  dispatch_floating(
      dx.grad.dtype, [&]<class T, class W = Wide<T>>() {
        with_beta(is_apart ? dx.beta : 1, [&](auto accumulate) {
          enqueue(grid_over(size * E), last_dx_kernel<accumulate.value, T>, dx.grad.as<T>(),
                  is_apart ? product.as<const W>() : nullptr, stride, last_of<T>(d, in), d.shape[1],
                  in.w.as<const T>() + multiplied_logits(in) * E, count, E, size * E);
        });
      });
}

// Calls with_logits(begin, size) while the logits of a chunk are in the buffer.
template <class WithLogits>
void compute_losses(View losses, View right, const LinearCrossEntropy& in,
                    WithLogits&& with_logits) {
  const RowChunks chunks(in.rows(), in.logits.shape[0]);
  for (int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const int64_t begin = chunks.begin(chunk), size = chunks.size(chunk);
    compute_logits(in, begin, size);
    dispatch_floating(in.x.dtype, [&]<class T>() {
      enqueue(a_block_for_each(size), logit_softmax_kernel<T>, losses.as<double>() + begin,
              right.data ? right.as<int32_t>() + begin : nullptr, LogitRows<T>(in, begin));
    });
    with_logits(begin, size);
  }
}

// Calls find_d(turn, begin, size) for each chunk, the last one first, and adds the chunk to the
// gradients.
template <class FindD>
void for_each_in_backward(const LinearCrossEntropyTargets& targets, View d,
                          const LinearCrossEntropy& in, FindD&& find_d) {
  const RowChunks chunks(in.rows(), in.logits.shape[0]);
  const auto& [dw, dx] = targets;
  for (int64_t turn = 0; turn < chunks.count(); ++turn) {
    const int64_t chunk = chunks.in_backward(turn);
    const int64_t begin = chunks.begin(chunk), size = chunks.size(chunk);
    find_d(turn, begin, size);
    if (dw) add_dw({dw->grad, turn == 0 ? dw->beta : 1}, d, rows_of(in.x, begin, size), in);
    if (dx) compute_dx({rows_of(dx->grad, begin, size), dx->beta}, d, in);
  }
}

template <class W>
struct TimesDloss {
  Seed<W> seed;
  __device__ W operator()(W x) const { return seed.dloss() * x; }
};

}  // namespace

void linear_cross_entropy(View loss, View losses, std::optional<GradTarget> unit_dx,
                          const LinearCrossEntropy& in, const Counted& counted) {
  dispatch_wide(loss.dtype, [&]<class W>() {
    compute_losses(losses, {}, in, [&](int64_t begin, int64_t size) {
      if (!unit_dx) return;
      enqueue(a_block_for_each(size), logit_gradient_kernel<W, UnitSeed<W>>, UnitSeed<W>{}, false,
              LogitRows<W>(in, begin), counted);
      compute_dx({rows_of(unit_dx->grad, begin, size), 0}, in.logits, in);
    });
    enqueue({1}, mean_of_counted_kernel<W>, loss.as<W>(), losses.as<const double>(), in.rows(),
            counted);
  });
}

// d lies over the logits. dx may be x: a chunk of dx is written after dw has read the same chunk of
// x.
void linear_cross_entropy_backward(const LinearCrossEntropyTargets& targets, const LossSeed& seed,
                                   View d, const LinearCrossEntropy& in, const Counted& counted) {
  for_each_in_backward(targets, d, in, [&](int64_t turn, int64_t begin, int64_t size) {
    if (turn > 0) compute_logits(in, begin, size);
    dispatch_floating(
        d.dtype, [&]<class T, class W = Wide<T>>() {
          enqueue(a_block_for_each(size), logit_gradient_kernel<T, Seed<W>>, Seed<W>(seed),
                  turn == 0, LogitRows<T>(in, begin), counted);
        });
  });
}

void linear_cross_entropy_with_backward(View loss, View losses,
                                        const LinearCrossEntropyTargets& targets,
                                        const LossSeed& seed, View d, const LinearCrossEntropy& in,
                                        const Counted& counted) {
  for_each_in_backward(targets, d, in, [&](int64_t, int64_t begin, int64_t size) {
    compute_logits(in, begin, size);
    dispatch_floating(
        d.dtype, [&]<class T, class W = Wide<T>>() {
          enqueue(a_block_for_each(size), logit_loss_and_gradient_kernel<T>,
                  losses.as<double>() + begin, Seed<W>(seed), LogitRows<T>(in, begin), counted);
        });
  });
  dispatch_wide(loss.dtype, [&]<class W>() {
    enqueue({1}, take_loss_kernel<W>, loss.as<W>(), losses.as<const double>(), in.rows(), counted,
            Seed<W>(seed));
  });
}

// dx may be unit_dx.
void times_dloss(GradTarget dx, const LossSeed& from, View unit_dx) {
  dispatch_wide(unit_dx.dtype, [&]<class W>() {
    const Seed<W> seed(from);
    enqueue(one_thread, add_loss_kernel<W>, seed);
    elementwise(dx.grad.as<W>(), dx.beta, unit_dx.numel(), TimesDloss<W>{seed},
                unit_dx.as<const W>());
  });
}

void add_linear_score(View score, View losses, View right, const LinearCrossEntropy& in) {
  compute_losses(losses, right, in, [](int64_t, int64_t) {});
  enqueue(a_block_for_each(1), add_logit_scores_kernel, score.as<double>(),
          losses.as<const double>(), right.as<const int32_t>(), in.labels.as<const int32_t>(),
          in.rows());
}

}  // namespace accrue::cuda
