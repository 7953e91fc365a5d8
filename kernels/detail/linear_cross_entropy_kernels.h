#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/detail/counted.h"
#include "kernels/judged.h"
#include "kernels/linear_cross_entropy.h"

namespace accrue {

// The operands of the kernels of linear_cross_entropy, of type T, and their scratch.
struct LinearCrossEntropy {
  View x, w, labels;      // [R, E], [V, E], i32 [R]
  bool leaves_out;        // true: skips rows with the label not_judged
  View logits;            // Wide<T> [rows of a chunk, row_stride()]
  View softmax;           // Wide<T> [R, 2]: RowSoftmax of each row that counts, if it is kept
  View places, gathered;  // cpu, if leaves_out: i32 [R], Wide<T> [rows of a chunk, E]
  View workspace;         // for the products
  OwnLogit own;           // whether logit r counts in row r

  HOST_DEVICE bool counts(int32_t label) const { return !(leaves_out && label == not_judged); }
  int64_t rows() const { return x.shape[0]; }
  int64_t E() const { return x.shape[1]; }
  int64_t V() const { return w.shape[0]; }
  // Elements from a row of logits, or of their gradient, to the next: V and, on cuda, a padding
  // that is neither read nor written.
  int64_t row_stride() const { return logits.shape[1]; }
};

struct LinearCrossEntropyTargets {
  std::optional<GradTarget> dw, dx;  // claimed in this order
};

// Cuts rows into as few chunks of at most `most` as possible, nearly equal except for the last.
class RowChunks {
 public:
  static constexpr int64_t step = 16;

  RowChunks(int64_t rows, int64_t most)
      : rows_(rows),
        size_(std::min(most, round_up(ceil_div(rows, ceil_div(rows, most) + (rows == 0)), step))) {}

  int64_t rows() const { return rows_; }
  // At least one chunk, which may be empty.
  int64_t count() const { return rows_ == 0 ? 1 : ceil_div(rows_, size_); }
  int64_t begin(int64_t chunk) const { return chunk * size_; }
  int64_t size(int64_t chunk) const { return std::min(size_, rows_ - begin(chunk)); }
  // The chunk that is computed at this turn of backward. The last chunk comes first, because its
  // logits may still be stored.
  int64_t in_backward(int64_t turn) const { return turn == 0 ? count() - 1 : turn - 1; }

 private:
  int64_t rows_, size_;
};

// Rows [begin, begin + count) of a matrix.
inline View rows_of(const View& x, int64_t begin, int64_t count) {
  const int64_t columns = x.shape[1];
  char* const data = static_cast<char*>(x.data) + begin * columns * int64_t(size_of(x.dtype));
  return {data, {count, columns}, x.dtype, x.device};
}

namespace cpu {
// Throws Error for a label out of range.
void check_labels(std::string_view op, View labels, bool leaves_out, int64_t V);
void linear_cross_entropy(View loss, View losses, std::optional<GradTarget> unit_dx,
                          const LinearCrossEntropy& in, const Counted& counted);
// dx may be x: a chunk of dx is written after dw has read the same chunk of x. d may be the logits.
void linear_cross_entropy_backward(const LinearCrossEntropyTargets& targets, const LossSeed& from,
                                   View d, const LinearCrossEntropy& in, const Counted& counted);
// The same, but computes the loss as well, from the same logits.
void linear_cross_entropy_with_backward(View loss, View losses,
                                        const LinearCrossEntropyTargets& targets,
                                        const LossSeed& from, View d, const LinearCrossEntropy& in,
                                        const Counted& counted);
// dx may be unit_dx.
void times_dloss(GradTarget dx, const LossSeed& from, View unit_dx);
void add_linear_score(View score, View losses, View right, const LinearCrossEntropy& in);
}  // namespace cpu

}  // namespace accrue
