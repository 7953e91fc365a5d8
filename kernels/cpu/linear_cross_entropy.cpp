#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/detail/cross_entropy_kernels.h"
#include "kernels/detail/linear_cross_entropy_kernels.h"
#include "kernels/detail/loss_seed.h"
#include "kernels/detail/matmul.h"
#include "kernels/detail/reduce.h"
#include "kernels/detail/scale.h"
#include "kernels/detail/vector_exp.h"

namespace accrue::cpu {
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
    check_labels(op, in.labels, in.leaves_out, in.V());
    int64_t count = 0;
    for (int64_t r = 0; r < in.rows(); ++r) {
      if (!in.counts(label[r])) continue;
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

// Whether backward finds the logits of the chunk that it begins with.
enum class LogitsOfLast { stored, unknown };

template <class T>
void clear_left_out(const GradTarget& dx, const LinearCrossEntropy& in) {
  const int32_t* label = in.labels.as<const int32_t>();
  for (int64_t r = 0; r < in.rows(); ++r)
    if (!in.counts(label[r])) std::fill_n(dx.grad.as<T>() + r * in.E(), in.E(), T(0));
}

// Adds a chunk to the gradients. The chunk's logits are in the buffer; their gradient goes to d
// [rows of a chunk, V]. x, the chunk's rows, is needed only if dw is wanted. softmax(r, logits)
// returns the RowSoftmax of row r.
template <class T, class Softmax, class W = Wide<T>>
void differentiate_chunk(const LinearCrossEntropyTargets& targets, W scale, View d,
                         const LinearCrossEntropy& in, const CountedRows& rows, int64_t chunk,
                         View x, const Softmax& softmax) {
  const int64_t V = in.V(), begin = rows.chunks().begin(chunk), size = rows.chunks().size(chunk);
  const View d_of_chunk = rows_of(d, 0, size);
  parallel_each(size, V, [&](int64_t i) {
    const int64_t r = rows[begin + i];
    const W* row = in.logits.as<const W>() + i * V;
    gradient_of_row(d.as<T>() + i * V, row, V, in.labels.as<const int32_t>()[r], softmax(r, row),
                    scale);
  });
  const auto& [dw, dx] = targets;
  if (dw) matmul(*dw, d_of_chunk, x, Transpose::yes, Transpose::no, {});
  if (dx && rows.are_all())
    matmul({rows_of(dx->grad, begin, size), dx->beta}, d_of_chunk, in.w, Transpose::no,
           Transpose::no, in.workspace);
  else if (dx) scatter_dx<T>(*dx, d_of_chunk, in, rows, begin);
}

// The softmax of a row, as compute_losses() has stored it.
template <class W>
auto stored_softmax(const LinearCrossEntropy& in) {
  return [softmax = in.softmax.as<const W>()](int64_t r, const W*) {
    return RowSoftmax<W>{softmax[2 * r], softmax[2 * r + 1]};
  };
}

// Adds all chunks to the gradients, the last one first.
template <class T, class Softmax, class W = Wide<T>>
void differentiate_chunks(LinearCrossEntropyTargets targets, W dloss, View d,
                          const LinearCrossEntropy& in, const CountedRows& rows,
                          const Counted& counted, LogitsOfLast logits, const Softmax& softmax) {
  if (targets.dx && targets.dx->beta == 0) clear_left_out<T>(*targets.dx, in);
  for (int64_t turn = 0; turn < rows.chunks().count(); ++turn) {
    const int64_t chunk = rows.chunks().in_backward(turn);
    const View x = rows.x_of(chunk);
    if (turn > 0 || logits == LogitsOfLast::unknown)
      compute_logits(in, x, rows, rows.chunks().begin(chunk));
    if (turn > 0 && targets.dw) targets.dw->beta = 1;
    differentiate_chunk<T>(targets, counted.mean_of(dloss), d, in, rows, chunk, x, softmax);
  }
}

void take_mean(View loss, View losses, const LinearCrossEntropy& in, const Counted& counted) {
  double sum = 0;
  for (int64_t r = 0; r < in.rows(); ++r)
    if (in.counts(in.labels.as<const int32_t>()[r])) sum += losses.as<const double>()[r];
  dispatch_wide(loss.dtype,
                [&]<class W>() { *loss.as<W>() = static_cast<W>(counted.mean_of(sum)); });
}

}  // namespace

void check_labels(std::string_view op, View labels, bool leaves_out, int64_t V) {
  const int32_t* label = labels.as<const int32_t>();
  for (int64_t r = 0; r < labels.numel(); ++r)
    check((leaves_out && label[r] == not_judged) || (0 <= label[r] && label[r] < V),
          "[{}] label {} of row {} is outside [0, {})", op, label[r], r, V);
}

void linear_cross_entropy(View loss, View losses, std::optional<GradTarget> unit_dx,
                          const LinearCrossEntropy& in, const Counted& counted) {
  const CountedRows rows("linear_cross_entropy", in);
  dispatch_wide(loss.dtype, [&]<class W>() {
    if (unit_dx) clear_left_out<W>(*unit_dx, in);
    compute_losses(rows, losses, {}, in, [&](int64_t chunk) {
      if (unit_dx)
        differentiate_chunk<W>({{}, unit_dx}, counted.mean_of(W(1)), in.logits, in, rows, chunk, {},
                               stored_softmax<W>(in));
    });
  });
  take_mean(loss, losses, in, counted);
}

void linear_cross_entropy_backward(const LinearCrossEntropyTargets& targets, const LossSeed& from,
                                   View d, const LinearCrossEntropy& in, const Counted& counted) {
  const CountedRows rows("linear_cross_entropy", in);
  dispatch_floating(
      in.x.dtype, [&]<class T, class W = Wide<T>>() {
        const Seed<W> seed(from);
        seed.add_loss();
        differentiate_chunks<T>(targets, seed.dloss(), d, in, rows, counted, LogitsOfLast::stored,
                                stored_softmax<W>(in));
      });
}

void linear_cross_entropy_with_backward(View loss, View losses,
                                        const LinearCrossEntropyTargets& targets,
                                        const LossSeed& from, View d, const LinearCrossEntropy& in,
                                        const Counted& counted) {
  const CountedRows rows("linear_cross_entropy", in);
  const int32_t* labels = in.labels.as<const int32_t>();
  dispatch_floating(
      in.x.dtype, [&]<class T, class W = Wide<T>>() {
        const Seed<W> seed(from);
        differentiate_chunks<T>(targets, seed.dloss(), d, in, rows, counted, LogitsOfLast::unknown,
                                [&](int64_t r, const W* row) {
                                  const RowSoftmax<W> softmax = softmax_of(row, in.V(), labels[r]);
                                  losses.as<double>()[r] =
                                      static_cast<double>(softmax.loss(row[labels[r]]));
                                  return softmax;
                                });
        take_mean(loss, losses, in, counted);
        seed.add_loss();
      });
}

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

}  // namespace accrue::cpu
