#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/detail/counted.h"
#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/linear_cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/matmul.h"
#include "kernels/detail/reduce.h"
#include "kernels/detail/scale.h"
#include "kernels/detail/vector_exp.h"

namespace accrue {
namespace cpu {
namespace {

// The rows that count, gathered into chunks. Throws Error for a label out of range.
class CountedRows {
 public:
  CountedRows(std::string_view op, const LinearCrossEntropy& in)
      : in_(in), chunks_(find(op, in), in.logits.shape[0]) {}

  const RowChunks& chunks() const { return chunks_; }
  bool are_all() const { return chunks_.rows() == in_.rows(); }
  // The row with this place among the rows that count.
  int64_t operator[](int64_t place) const {
    return are_all() ? place : in_.places.as<const int32_t>()[place];
  }

  // A chunk of x: a view if all rows count, else a copy.
  View x_of(int64_t chunk) const {
    const int64_t begin = chunks_.begin(chunk), size = chunks_.size(chunk), E = in_.E();
    if (are_all()) return rows_of(in_.x, begin, size);
    const View x{in_.gathered.data, {size, E}, in_.x.dtype, in_.x.device};
    const auto bytes = static_cast<size_t>(E) * size_of(x.dtype);
    parallel_each(size, E, [&](int64_t i) {
      std::memcpy(rows_of(x, i, 1).data, rows_of(in_.x, (*this)[begin + i], 1).data, bytes);
    });
    return x;
  }

 private:
  static int64_t find(std::string_view op, const LinearCrossEntropy& in) {
    const int32_t* label = in.labels.as<const int32_t>();
    int64_t count = 0;
    for (int64_t r = 0; r < in.rows(); ++r) {
      if (!in.counts(label[r])) continue;
      check(0 <= label[r] && label[r] < in.V(), "[{}] label {} of row {} is outside [0, {})", op,
            label[r], r, in.V());
      if (in.leaves_out) in.places.as<int32_t>()[count] = static_cast<int32_t>(r);
      ++count;
    }
    return count;
  }

  const LinearCrossEntropy& in_;
  RowChunks chunks_;
};

// Computes the logits of x [size, E], which are the counted rows from place `begin` on.
void compute_logits(const LinearCrossEntropy& in, View x, const CountedRows& rows, int64_t begin) {
  matmul({rows_of(in.logits, 0, x.shape[0]), 0}, x, in.w, Transpose::no, Transpose::yes,
         in.workspace);
  if (in.own == OwnLogit::counts) return;
  dispatch_wide(in.logits.dtype, [&]<class W>() {
    for (int64_t i = 0; i < x.shape[0]; ++i)
      in.logits.as<W>()[i * in.V() + rows[begin + i]] = -std::numeric_limits<W>::infinity();
  });
}

template <class W>
RowSoftmax<W> softmax_of(const W* row, int64_t V, int32_t label) {
  W maximum = row[0];
#pragma omp simd reduction(max : maximum)
  for (int64_t v = 0; v < V; ++v) maximum = row[v] > maximum ? row[v] : maximum;
  const auto sum = [=](int64_t begin, int64_t end) {
    return sum_of<W>(end - begin, [=](int64_t v) { return vector_exp(row[begin + v] - maximum); });
  };
  const W of_label = vector_exp(row[label] - maximum) - 1;
  return {maximum, static_cast<W>(sum(0, label) + sum(label + 1, V) + double(of_label))};
}

// True if the label's logit is the largest, the first of equals.
template <class W>
bool is_right(const W* row, int32_t label, const RowSoftmax<W>& softmax) {
  return row[label] == softmax.maximum && !std::isnan(softmax.rest) &&
         std::find(row, row + label, softmax.maximum) == row + label;
}

// Computes the softmax and the loss of each row that counts. `right`, if given, becomes 1 or 0.
// Calls with_logits(chunk) while the logits of the chunk are in the buffer.
template <class WithLogits>
void compute_losses(const CountedRows& rows, View losses, View right, const LinearCrossEntropy& in,
                    WithLogits&& with_logits) {
  const int64_t V = in.V();
  const int32_t* labels = in.labels.as<const int32_t>();
  for (int64_t chunk = 0; chunk < rows.chunks().count(); ++chunk) {
    compute_logits(in, rows.x_of(chunk), rows, rows.chunks().begin(chunk));
    dispatch_wide(in.logits.dtype, [&]<class W>() {
      parallel_each(rows.chunks().size(chunk), V, [&](int64_t i) {
        const int64_t r = rows[rows.chunks().begin(chunk) + i];
        const W* row = in.logits.as<const W>() + i * V;
        const RowSoftmax<W> softmax = softmax_of(row, V, labels[r]);
        in.softmax.as<W>()[2 * r] = softmax.maximum;
        in.softmax.as<W>()[2 * r + 1] = softmax.rest;
        losses.as<double>()[r] = static_cast<double>(softmax.loss(row[labels[r]]));
        if (right.data) right.as<int32_t>()[r] = is_right(row, labels[r], softmax);
      });
    });
    with_logits(chunk);
  }
}

// out = scale * (softmax(row) - onehot(label)); out may be the row. At the label no digits cancel,
// because the sum of the other terms is computed separately.
template <class T, class W>
void gradient_of_row(T* out, const W* row, int64_t V, int32_t label, const RowSoftmax<W>& softmax,
                     W scale) {
  const W factor = scale / (1 + softmax.rest);
  const W others = softmax.rest + (1 - vector_exp(row[label] - softmax.maximum));
#pragma omp simd
  for (int64_t v = 0; v < V; ++v) out[v] = T(factor * vector_exp(row[v] - softmax.maximum));
  out[label] = T(-factor * others);
}

// Computes a chunk of dx in the scratch, then stores its rows at their places.
template <class T, class W = Wide<T>>
void scatter_dx(const GradTarget& dx, View d, const LinearCrossEntropy& in, const CountedRows& rows,
                int64_t begin) {
  const int64_t E = in.E(), size = d.shape[0];
  matmul({rows_of(in.gathered, 0, size), 0}, d, in.w, Transpose::no, Transpose::no, in.workspace);
  with_beta(dx.beta, [&](auto accumulate) {
    parallel_each(size, E, [&](int64_t i) {
      const W* from = in.gathered.as<const W>() + i * E;
      T* to = dx.grad.as<T>() + rows[begin + i] * E;
      for (int64_t e = 0; e < E; ++e) store(to[e], from[e], accumulate);
    });
  });
}

template <class T>
void clear_left_out(const GradTarget& dx, const LinearCrossEntropy& in) {
  const int32_t* label = in.labels.as<const int32_t>();
  for (int64_t r = 0; r < in.rows(); ++r)
    if (!in.counts(label[r])) std::fill_n(dx.grad.as<T>() + r * in.E(), in.E(), T(0));
}

// Adds a chunk to the gradients. The chunk's logits are in the buffer; their gradient goes to d
// [rows of a chunk, V]. x, the chunk's rows, is needed only if dw is wanted.
template <class T, class W = Wide<T>>
void differentiate_chunk(const LinearCrossEntropyTargets& targets, W scale, View d,
                         const LinearCrossEntropy& in, const CountedRows& rows, int64_t chunk,
                         View x) {
  const int64_t V = in.V(), begin = rows.chunks().begin(chunk), size = rows.chunks().size(chunk);
  const View d_of_chunk = rows_of(d, 0, size);
  parallel_each(size, V, [&](int64_t i) {
    const int64_t r = rows[begin + i];
    const W* softmax = in.softmax.as<const W>() + 2 * r;
    gradient_of_row(d.as<T>() + i * V, in.logits.as<const W>() + i * V, V,
                    in.labels.as<const int32_t>()[r], RowSoftmax<W>{softmax[0], softmax[1]}, scale);
  });
  const auto& [dw, dx] = targets;
  if (dw) matmul(*dw, d_of_chunk, x, Transpose::yes, Transpose::no, {});
  if (dx && rows.are_all())
    matmul({rows_of(dx->grad, begin, size), dx->beta}, d_of_chunk, in.w, Transpose::no,
           Transpose::no, in.workspace);
  else if (dx) scatter_dx<T>(*dx, d_of_chunk, in, rows, begin);
}

}  // namespace

void linear_cross_entropy(View loss, View losses, std::optional<GradTarget> unit_dx,
                          const LinearCrossEntropy& in, const Counted& counted) {
  const CountedRows rows("linear_cross_entropy", in);
  dispatch_wide(loss.dtype, [&]<class W>() {
    if (unit_dx) clear_left_out<W>(*unit_dx, in);
    compute_losses(rows, losses, {}, in, [&](int64_t chunk) {
      if (unit_dx)
        differentiate_chunk<W>({{}, unit_dx}, counted.mean_of(W(1)), in.logits, in, rows, chunk,
                               {});
    });
  });
  double sum = 0;
  for (int64_t r = 0; r < in.rows(); ++r)
    if (in.counts(in.labels.as<const int32_t>()[r])) sum += losses.as<const double>()[r];
  dispatch_wide(loss.dtype,
                [&]<class W>() { *loss.as<W>() = static_cast<W>(counted.mean_of(sum)); });
}

// dx may be x: a chunk of dx is written after dw has read the same chunk of x. d may be the logits.
void linear_cross_entropy_backward(const LinearCrossEntropyTargets& targets, const LossSeed& from,
                                   View d, const LinearCrossEntropy& in, const Counted& counted) {
  const CountedRows rows("linear_cross_entropy", in);
  LinearCrossEntropyTargets of_chunk = targets;
  dispatch_floating(
      in.x.dtype, [&]<class T, class W = Wide<T>>() {
        const Seed<W> seed(from);
        seed.add_loss();
        if (targets.dx && targets.dx->beta == 0) clear_left_out<T>(*targets.dx, in);
        for (int64_t turn = 0; turn < rows.chunks().count(); ++turn) {
          const int64_t chunk = rows.chunks().in_backward(turn);
          const View x = rows.x_of(chunk);
          if (turn > 0) compute_logits(in, x, rows, rows.chunks().begin(chunk));
          if (turn > 0 && of_chunk.dw) of_chunk.dw->beta = 1;
          differentiate_chunk<T>(of_chunk, counted.mean_of(seed.dloss()), d, in, rows, chunk, x);
        }
      });
}

// dx may be unit_dx.
void times_dloss(GradTarget dx, const LossSeed& from, View unit_dx) {
  dispatch_wide(unit_dx.dtype, [&]<class W>() {
    const Seed<W> seed(from);
    seed.add_loss();
    scale(dx, unit_dx, double(seed.dloss()));
  });
}

void add_linear_score(View score, View losses, View right, const LinearCrossEntropy& in) {
  compute_losses(CountedRows("add_linear_score", in), losses, right, in, [](int64_t) {});
  double* sums = score.as<double>();
  for (int64_t r = 0; r < in.rows(); ++r) {
    if (!in.counts(in.labels.as<const int32_t>()[r])) continue;
    sums[0] += losses.as<const double>()[r];
    sums[1] += 1;
    sums[2] += right.as<const int32_t>()[r];
  }
}

}  // namespace cpu

namespace {

// The number of rows whose logits are computed. On the cpu these are the rows that count.
int64_t computed_rows(const LinearCrossEntropy& in) {
  if (in.labels.device != Device::cpu) return in.rows();
  const int32_t* label = in.labels.as<const int32_t>();
  return std::count_if(label, label + in.rows(), [&](int32_t l) { return in.counts(l); });
}

// Each chunk reads w and writes its logits, which the softmax of its rows then reads.
Work forward_work(const LinearCrossEntropy& in) {
  const int64_t rows = computed_rows(in);
  const RowChunks chunks(rows, in.logits.shape[0]);
  const double logits = double(rows) * double(in.V());
  return {.flops = 2 * logits * double(in.E()),
          .bytes = bytes_of(in.x) + bytes_of(in.labels) + bytes_of(in.softmax) +
                   double(chunks.count()) * bytes_of(in.w) +
                   2 * logits * double(size_of(in.logits.dtype))};
}

}  // namespace

template <>
struct detail::WorkOf<cpu::linear_cross_entropy> {
  Work operator()(const View&, const View&, const std::optional<GradTarget>& unit_dx,
                  const LinearCrossEntropy& in, const Counted&) const {
    Work work = forward_work(in);
    if (!unit_dx) return work;
    const int64_t rows = computed_rows(in);
    const double logits = double(rows) * double(in.V());
    work.flops *= 2;
    work.bytes += 2 * logits * double(size_of(in.logits.dtype)) + bytes_of(unit_dx) +
                  double(RowChunks(rows, in.logits.shape[0]).count()) * bytes_of(in.w);
    return work;
  }
};

template <>
struct detail::WorkOf<cpu::add_linear_score> {
  Work operator()(const View&, const View&, const View&, const LinearCrossEntropy& in) const {
    return forward_work(in);
  }
};

// Backward computes the logits of all chunks but one again, writes d over them, and computes the
// wanted products. dw is written by one chunk and added to by the others.
template <>
struct detail::WorkOf<cpu::linear_cross_entropy_backward> {
  Work operator()(const LinearCrossEntropyTargets& targets, const LossSeed&, const View& d,
                  const LinearCrossEntropy& in, const Counted&) const {
    const int64_t rows = computed_rows(in);
    const RowChunks chunks(rows, in.logits.shape[0]);
    const auto& [dw, dx] = targets;
    const double again = double(rows - chunks.size(chunks.count() - 1));
    const double products = again + (dw ? double(rows) : 0) + (dx ? double(rows) : 0);
    const double others = double(chunks.count() - 1), V = double(in.V());
    const double row = V * double(size_of(in.logits.dtype)), d_row = V * double(size_of(d.dtype));
    return {.flops = 2 * products * V * double(in.E()),
            .bytes = bytes_of(in.x) + bytes_of(in.labels) + bytes_of(in.softmax) +
                     (again + double(rows)) * row + (products - again + double(rows)) * d_row +
                     (others + (dx ? others + 1 : 0)) * bytes_of(in.w) + bytes_of(dx) +
                     (dw ? bytes_of(dw) + 2 * others * bytes_of(dw->grad) : 0)};
  }
};

namespace cuda {
decltype(cpu::linear_cross_entropy) linear_cross_entropy;
decltype(cpu::linear_cross_entropy_backward) linear_cross_entropy_backward;
decltype(cpu::times_dloss) times_dloss;
decltype(cpu::add_linear_score) add_linear_score;
}  // namespace cuda

namespace {

// The checked operands, with x as a matrix.
struct HeadOperands {
  Tensor x, w, labels;

  HeadOperands(std::string_view op, const Tensor& x_of_any_rank, const Tensor& weight,
               const Tensor& labels)
      : x(x_of_any_rank.saved()), w(operand(weight, x.dtype())), labels(labels.saved()) {
    check_weight(op, x, w, weight);
    const bool agree = x.shape().rank() >= 2 && w.shape().rank() == 2 && x.numel() > 0 &&
                       w.numel() > 0 && x.size(x.shape().rank() - 1) == w.size(1);
    check(
        agree && labels.dtype() == DType::i32 && labels.shape().rank() >= 1 &&
            labels.numel() == x.numel() / w.size(1) && labels.device() == x.device(),
        "[{}] x {} {}, w {} and labels {} {} on {}: expected x [..., E], w [V, E] and i32 labels, "
        "one for each row of x, on {}, none empty",
        op, name(x.dtype()), x.shape(), w.shape(), name(labels.dtype()), labels.shape(),
        name(labels.device()), name(x.device()));
    x = x.reshape({labels.numel(), w.size(1)});
  }
};

// The scratch of a call. Its type is Wide<T> except for the places.
struct HeadScratch {
  Tensor places, gathered, workspace;

  HeadScratch(const HeadOperands& of, const Tensor& logits, bool leaves_out) {
    const Device device = of.x.device();
    const int64_t rows = of.x.size(0), V = of.w.size(0), E = of.w.size(1), chunk = logits.size(0);
    const bool gathers = leaves_out && !plans_for_cuda(device);
    places = Tensor::empty({gathers ? rows : 0}, DType::i32, device, Category::workspace);
    gathered = Tensor::empty({gathers ? chunk : 0, E}, logits.dtype(), device, Category::workspace);
    workspace = matmul_workspace(chunk, V, E, device, of.w, of.x.dtype());
  }
};

LinearCrossEntropy head_arguments(const HeadOperands& of, const Tensor& logits,
                                  const Tensor& softmax, bool leaves_out,
                                  const HeadScratch& scratch, OwnLogit own = OwnLogit::counts) {
  return {of.x.view(),
          of.w.view(),
          of.labels.view(),
          leaves_out,
          logits.view(),
          softmax.view(),
          scratch.places.view(),
          scratch.gathered.view(),
          scratch.workspace.view(),
          own};
}

Tensor empty_logits(std::string_view op, const HeadOperands& of, int64_t chunk_rows,
                    HeadPass pass) {
  check(chunk_rows >= 0, "[{}] {} rows in a chunk: expected 1 or more, or 0 for a default", op,
        chunk_rows);
  const int64_t rows = of.x.size(0), V = of.w.size(0);
  const int64_t most = chunk_rows > 0 ? std::min(chunk_rows, rows)
                                      : chunk_rows_for(rows, V, of.x.dtype(), of.x.device(), pass);
  // On cuda rows begin at multiples of 128 bytes, also where d has 16 bits: for other rows,
  // cuBLASLt's kernels take several times as long.
  const int64_t row_stride = plans_for_cuda(of.x.device()) ? round_up<int64_t>(V, 64) : V;
  return Tensor::empty({most, row_stride}, wide(of.x.dtype()), of.x.device(), Category::workspace);
}

// In 16 bits on the cpu, d has memory of its own; otherwise the result is undefined.
Tensor d_apart_from(const Tensor& logits, const HeadOperands& of) {
  if (!is_16_bit_dtype(of.x.dtype()) || plans_for_cuda(of.x.device())) return {};
  return Tensor::empty(logits.shape(), of.x.dtype(), of.x.device(), Category::workspace);
}

// d in the memory of the logits: a row begins where the logits of the row do.
View d_over(const Tensor& logits, const HeadOperands& of) {
  const DType dtype = of.x.dtype();
  const auto in_one = static_cast<int64_t>(size_of(logits.dtype()) / size_of(dtype));
  return {logits.view().data, {logits.size(0), in_one * logits.size(1)}, dtype, logits.device()};
}

Tensor empty_softmax(const HeadOperands& of) {
  return Tensor::empty({of.x.size(0), 2}, wide(of.x.dtype()), of.x.device());
}

Tensor for_each_row_of(const HeadOperands& of, DType dtype) {
  return Tensor::empty({of.x.size(0)}, dtype, of.x.device(), Category::workspace);
}

}  // namespace

int64_t detail::chunk_rows_for(int64_t rows, int64_t V, DType dtype, Device device, HeadPass pass) {
  constexpr int64_t least = 64, MiB = 1 << 20;
  const bool on_cuda = plans_for_cuda(device);
  const int64_t bytes = pass == HeadPass::reads_w_once            ? 32 * MiB
                        : on_cuda && pass == HeadPass::adds_to_dw ? 192 * MiB
                                                                  : 64 * MiB;
  const bool is_apart = is_16_bit_dtype(dtype) && !on_cuda;
  const auto element = static_cast<int64_t>(size_of(wide(dtype)) + (is_apart ? size_of(dtype) : 0));
  const int64_t most = std::max(least, bytes / (V * element) / RowChunks::step * RowChunks::step);
  return std::min(rows, std::max(least, RowChunks(rows, most).size(0)));
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& labels,
                            const Tensor& judged, int64_t chunk_rows, int64_t row_labels,
                            OwnLogit own) {
  constexpr std::string_view op = "linear_cross_entropy";
  HeadOperands of(op, x, w, labels);
  const Edge dx_edge = x, dw_edge = w;
  check(!dw_edge.wants_grad() || !is_16_bit_dtype(w.dtype()),
        "[{}] w {} {} that wants a gradient: expected a parameter in float32", op, name(w.dtype()),
        w.shape());
  check(own == OwnLogit::counts || of.x.size(0) == of.w.size(0),
        "[{}] {} rows without their own logits and w {}: expected equal numbers of rows", op,
        of.x.size(0), w.shape());
  const Device device = x.device();
  const int64_t samples = labels.size(0), own_labels = labels.numel() / samples;
  check(row_labels == 0 || row_labels >= own_labels,
        "[{}] labels {} as pieces of rows of {} labels: expected no longer pieces", op,
        labels.shape(), row_labels);
  const Counted counted =
      counted_places(op, samples, row_labels > 0 ? row_labels : own_labels, device, judged);
  const bool leaves_out = judged.defined();
  Tensor loss = Tensor::empty({}, wide(x.dtype()), device);
  // In float16 a gradient without the loss scale would vanish.
  const bool is_frozen = !dw_edge.wants_grad() && !is_16_bit_dtype(of.x.dtype());
  const bool is_dx_alone = is_frozen && dx_edge.wants_grad();
  const HeadPass pass = is_frozen              ? HeadPass::reads_w_once
                        : dw_edge.wants_grad() ? HeadPass::adds_to_dw
                                               : HeadPass::reads_w;
  Tensor logits = empty_logits(op, of, chunk_rows, pass), softmax = empty_softmax(of);
  Tensor unit_dx = is_dx_alone ? Tensor::empty(of.x.shape(), of.x.dtype(), device) : Tensor();
  {
    const HeadScratch scratch(of, logits, leaves_out);
    launch<cpu::linear_cross_entropy, cuda::linear_cross_entropy>(
        device, loss.view(), for_each_row_of(of, DType::f64).view(),
        is_dx_alone ? std::optional(GradTarget{unit_dx.view(), 0}) : std::nullopt,
        head_arguments(of, logits, softmax, leaves_out, scratch, own), counted);
  }
  if (is_dx_alone) {
    record_loss(op, loss, {dx_edge},
                [=, unit_dx = std::move(unit_dx)](const LossSeed& seed) mutable {
                  auto dx = claim_grad_over_value(dx_edge, unit_dx);
                  if (!dx) return;
                  dx->grad.shape = unit_dx.shape();
                  launch<cpu::times_dloss, cuda::times_dloss>(device, *dx, seed, unit_dx.view());
                });
    return loss;
  }
  record_loss(op, loss, {dx_edge, dw_edge},
              [=, of = std::move(of), logits = std::move(logits), softmax = std::move(softmax),
               kept = judged](const LossSeed& seed) mutable {
                const auto [dw, dx] = claim_grads_over_values(dw_edge, {}, dx_edge, of.x);
                if (!dw && !dx) return;
                LinearCrossEntropyTargets targets{dw, dx};
                if (dx) targets.dx->grad.shape = of.x.shape();
                const HeadScratch scratch(of, logits, leaves_out);
                const Tensor apart = d_apart_from(logits, of);
                launch<cpu::linear_cross_entropy_backward, cuda::linear_cross_entropy_backward>(
                    device, targets, seed, apart.defined() ? apart.view() : d_over(logits, of),
                    head_arguments(of, logits, softmax, leaves_out, scratch, own), counted);
              });
  return loss;
}

void detail::add_linear_score(const Tensor& score, const Tensor& x, const Tensor& w,
                              const Tensor& labels, int64_t chunk_rows) {
  constexpr std::string_view op = "add_linear_score";
  const HeadOperands of(op, x, w, labels);
  check(score.defined() && score.shape() == Shape{3} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[{}] expected score f64 [3] on {}, where x is", op, name(x.device()));
  const Tensor logits = empty_logits(op, of, chunk_rows, HeadPass::reads_w),
               softmax = empty_softmax(of);
  const HeadScratch scratch(of, logits, true);
  launch<cpu::add_linear_score, cuda::add_linear_score>(
      x.device(), score.view(), for_each_row_of(of, DType::f64).view(),
      for_each_row_of(of, DType::i32).view(), head_arguments(of, logits, softmax, true, scratch));
}

}  // namespace accrue
