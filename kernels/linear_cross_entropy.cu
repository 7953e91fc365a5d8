#include <limits>

#include "kernels/detail/counted.cuh"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/linear_cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.cuh"
#include "kernels/detail/matmul.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// A block handles a row. It reads the logits twice, the second time from the cache.
constexpr int logit_threads = 512;

// Some rows of logits, with their labels and the results for each row.
template <class W>
struct LogitRows {
  const int32_t* labels;
  W* softmax;  // [rows, 2]
  const W* logits;
  int64_t V, stride;
  bool leaves_out;

  LogitRows(const LinearCrossEntropy& in, int64_t begin)
      : labels(in.labels.as<const int32_t>() + begin),
        softmax(in.softmax.as<W>() + 2 * begin),
        logits(in.logits.as<const W>()),
        V(in.V()),
        stride(in.row_stride()),
        leaves_out(in.leaves_out) {}

  __device__ const W* row(int64_t r) const { return logits + r * stride; }
  __device__ bool leaves_out_row(int64_t r) const { return leaves_out && labels[r] == not_judged; }
  __device__ bool in_range(int32_t label) const { return 0 <= label && label < V; }
};

// Calls use(v, row[v]) for a thread's share of a row, which is aligned to vectors.
template <class W, class Use>
__device__ void for_each_logit(const W* row, int64_t V, const Use& use) {
  constexpr int width = 16 / sizeof(W);
  for (int64_t part = threadIdx.x; part < V / width; part += logit_threads) {
    const auto logits = load_vector<width>(row, part);
    for (int k = 0; k < width; ++k) use(part * width + k, logits.values[k]);
  }
  const int64_t v = V / width * width + threadIdx.x;
  if (v < V) use(v, row[v]);
}

// Computes the softmax and the loss of a row, 0 if the row is left out. `right`, if given, becomes
// 1 or 0. Only whole blocks return early.
template <class W>
__global__ void __launch_bounds__(logit_threads, 1)
    logit_softmax_kernel(double* losses, int32_t* right, LogitRows<W> rows) {
  const int64_t r = blockIdx.x, V = rows.V;
  if (rows.leaves_out_row(r)) {
    if (threadIdx.x == 0) losses[r] = 0;
    return;
  }
  const int32_t label = rows.labels[r];
  const W* row = rows.row(r);
  W maximum = -std::numeric_limits<W>::infinity();
  for_each_logit(row, V, [&](int64_t, W logit) { maximum = logit > maximum ? logit : maximum; });
  maximum = block_max<logit_threads>(maximum);
  RunningSum<W> sum;
  for_each_logit(row, V, [&](int64_t v, W logit) {
    sum.add(RowSoftmax<W>::term(logit, maximum, v == label));
  });
  const RowSoftmax<W> softmax{maximum, block_sum<logit_threads>(sum.total())};
  const bool in_range = rows.in_range(label);
  if (threadIdx.x == 0) {
    rows.softmax[2 * r] = softmax.maximum;
    rows.softmax[2 * r + 1] = softmax.rest;
    losses[r] =
        in_range ? double(softmax.loss(row[label])) : std::numeric_limits<double>::quiet_NaN();
  }
  if (!right) return;
  int outdone = !in_range;
  if (in_range)
    for_each_logit(row, V, [&, of_label = row[label]](int64_t v, W logit) {
      outdone += outdoes(logit, of_label, v, label);
    });
  outdone = block_sum<logit_threads>(outdone);
  if (threadIdx.x == 0) right[r] = outdone == 0;
}

// out[v] = f(v, row[v]) for a thread's share of a row; out may be the row.
template <class T, class W, class F>
__device__ void write_row(T* out, const W* row, int64_t V, const F& f) {
  constexpr int width = 16 / sizeof(T);
  for (int64_t part = threadIdx.x; part < V / width; part += logit_threads) {
    const auto in = load_vector<width>(row, part);
    Vector<T, width> values;
    for (int k = 0; k < width; ++k) values.values[k] = f(part * width + k, in.values[k]);
    store_vector(out, part, values);
  }
  const int64_t v = V / width * width + threadIdx.x;
  if (v < V) out[v] = f(v, row[v]);
}

// The seed for a gradient that backward will multiply by the gradient of the loss.
template <class W>
struct UnitSeed {
  __device__ W dloss() const { return W(1); }
  __device__ void add_loss() const {}
};

// d = scale * (softmax - onehot) for a row; d may be the logits. At the label no digits cancel,
// because the sum of the other terms is computed separately.
template <class T, class AnySeed, class W = Wide<T>>
__global__ void __launch_bounds__(logit_threads, 1)
    logit_gradient_kernel(T* d, AnySeed seed, bool adds_loss, LogitRows<W> rows, Counted counted) {
  const int64_t r = blockIdx.x, V = rows.V;
  if (adds_loss && r == 0 && threadIdx.x == 0) seed.add_loss();
  const W* row = rows.row(r);
  T* out = d + r * rows.stride;
  if (rows.leaves_out_row(r)) {
    write_row(out, row, V, [](int64_t, W) { return T(W(0)); });
    return;
  }
  const int32_t label = rows.labels[r];
  const RowSoftmax<W> softmax{rows.softmax[2 * r], rows.softmax[2 * r + 1]};
  const W scale =
      rows.in_range(label) ? W(counted.mean_of(seed.dloss())) : std::numeric_limits<W>::quiet_NaN();
  const W factor = scale / (1 + softmax.rest);
  write_row(out, row, V, [&](int64_t v, W logit) {
    const W e = std::exp(logit - softmax.maximum);
    return T(v == label ? -factor * (softmax.rest + (1 - e)) : factor * e);
  });
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

template <class W>
__global__ void __launch_bounds__(block_threads)
    leave_own_out_kernel(W* logits, int64_t stride, int64_t begin, int64_t size) {
  for (int64_t i = first_item(); i < size; i += item_stride())
    logits[i * stride + begin + i] = -std::numeric_limits<W>::infinity();
}

// The first rows of logits or of their gradient, without the padding.
View unpadded(const View& rows, int64_t size, const LinearCrossEntropy& in) {
  return {rows.data, {size, in.V()}, rows.dtype, rows.device};
}

void compute_logits(const LinearCrossEntropy& in, int64_t begin, int64_t size) {
  matmul({unpadded(in.logits, size, in), 0}, rows_of(in.x, begin, size), in.w, Transpose::no,
         Transpose::yes, in.workspace, {.c = in.row_stride()});
  if (in.own == OwnLogit::left_out)
    dispatch_wide(in.logits.dtype, [&]<class W>() {
      enqueue(grid_over(size), leave_own_out_kernel<W>, in.logits.as<W>(), in.row_stride(), begin,
              size);
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
    dispatch_wide(in.logits.dtype, [&]<class W>() {
      enqueue(a_block_for_each(size), logit_softmax_kernel<W>, losses.as<double>() + begin,
              right.data ? right.as<int32_t>() + begin : nullptr, LogitRows<W>(in, begin));
    });
    with_logits(begin, size);
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
      enqueue(a_block_for_each(size), logit_gradient_kernel<W, UnitSeed<W>>, in.logits.as<W>(),
              UnitSeed<W>{}, false, LogitRows<W>(in, begin), counted);
      matmul({rows_of(unit_dx->grad, begin, size), 0}, unpadded(in.logits, size, in), in.w,
             Transpose::no, Transpose::no, in.workspace, {.a = in.row_stride()});
    });
    enqueue({1}, mean_of_counted_kernel<W>, loss.as<W>(), losses.as<const double>(), in.rows(),
            counted);
  });
}

// dx may be x: a chunk of dx is written after dw has read the same chunk of x.
void linear_cross_entropy_backward(const LinearCrossEntropyTargets& targets, const LossSeed& seed,
                                   View d, const LinearCrossEntropy& in, const Counted& counted) {
  const RowChunks chunks(in.rows(), in.logits.shape[0]);
  const auto& [dw, dx] = targets;
  for (int64_t turn = 0; turn < chunks.count(); ++turn) {
    const int64_t chunk = chunks.in_backward(turn);
    const int64_t begin = chunks.begin(chunk), size = chunks.size(chunk);
    if (turn > 0) compute_logits(in, begin, size);
    dispatch_floating(
        d.dtype, [&]<class T, class W = Wide<T>>() {
          enqueue(a_block_for_each(size), logit_gradient_kernel<T, Seed<W>>, d.as<T>(),
                  Seed<W>(seed), turn == 0, LogitRows<W>(in, begin), counted);
        });
    const View d_of_chunk = unpadded(d, size, in);
    const Strides strides{.a = in.row_stride()};
    if (dw)
      matmul({dw->grad, turn == 0 ? dw->beta : 1}, d_of_chunk, rows_of(in.x, begin, size),
             Transpose::yes, Transpose::no, in.workspace, strides);
    if (dx)
      matmul({rows_of(dx->grad, begin, size), dx->beta}, d_of_chunk, in.w, Transpose::no,
             Transpose::no, in.workspace, strides);
  }
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
