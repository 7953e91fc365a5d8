#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue {

namespace detail {
enum class OwnLogit { counts, left_out };
}  // namespace detail

// The head of a language model and its loss, computed in chunks of rows: neither the logits
// [rows, V] nor their gradient exist as a whole.
//   loss = 1/n sum_r -log softmax(l_r)[label[r]],   l_r[v] = sum_e x[r, e] * w[v, e],
// over the n rows r that count. x [..., E] has rows of E elements, w [V, E] is a parameter, and
// labels, one for each row, are i32 [N, ...] in [0, V). By default all rows count. If `judged` is
// judged_weight(labels) (kernels/judged.h), rows with the label not_judged do not count; if no row
// counts, the loss and the gradients are 0.
// Backward, with d[r, v] = dloss/n * (softmax(l_r)[v] - [v = label[r]]), or 0 in other rows:
//   dw[v, e] = sum_r d[r, v] * x[r, e]      dx[r, e] = sum_v d[r, v] * w[v, e].
// d overwrites the logits, but lies apart from them in 16 bits on the cpu. Chunk after chunk is
// added to dw by its target's beta, in float32 even in 16 bits, where the logits are float32 and d
// is 16-bit. Takes a LossSeed, too.
// Keeps x (and writes dx over it when no one else holds it), w, labels, judged, and the maximum and
// the sum of exponentials of each row. It also keeps the last chunk's logits, with which backward
// begins: their memory is needed at that moment anyway. It computes the logits of other chunks
// again. If w wants no gradient, and not in 16 bits, forward computes dx for dloss = 1 from each
// chunk's logits. Then it keeps only this dx, and backward scales it.
// On the cpu, rows that do not count cost nothing: the others are gathered into chunks. On cuda,
// where the host does not know the labels, all rows are computed.
// OwnLogit::left_out treats row r's logit of r itself as -infinity in its softmax. This is for rows
// that are compared with each other, where w is x or a multiple of x. chunk_rows is the number of
// rows in a chunk; 0 takes chunk_rows_for(). If labels [N, t] are pieces of longer rows,
// `row_labels` is the number of labels in a whole row, and `judged` is the weight of whole rows. n
// then counts whole rows, and the losses of the pieces add up to the loss of the rows.
// Scratch for a chunk of c rows, in addition to the logits:
//   8 bytes for each row of x.
//   With `judged`, on the cpu: 4 more bytes for each row, and c * E elements of the sums' type.
//   In 16 bits on the cpu, in backward: c * V elements for d.
//   On cuda: the workspace of a product (4 to 32 MiB); rows of logits and d are rounded up to
//   multiples of 64 elements. Products there take whole eights of V, and kernels of ours the rest.
// A w that wants no gradient may be stored in another type (kernels/quantized_matmul.h).
// Throws Error unless the shapes and dtypes agree, a w that wants a gradient is float32 beside
// 16 bits, every label is in range, and, with OwnLogit::left_out, x has as many rows as w. On cuda
// a label out of range gives a NaN loss, and NaN in its row of dx and in all of dw.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& labels,
                            const Tensor& judged = {}, int64_t chunk_rows = 0,
                            int64_t row_labels = 0,
                            detail::OwnLogit own = detail::OwnLogit::counts);

namespace detail {

// linear_cross_entropy() with a loss that waits (Tensor::compute_later()) for its backward, which
// computes it from the same logits as the gradients: the logits are computed once. If somebody
// reads the loss before, it is computed then, and backward does what that of linear_cross_entropy()
// does. The loss does not wait where backward is not recorded, nor where forward would compute dx.
// Loss and gradients have the same bits either way. x, w and labels must not be overwritten before
// backward or that reading.
// Scratch in backward: 8 bytes for each row, and as above.
// Throws Error as linear_cross_entropy() does. If backward throws after it has begun to write, a
// reading of the loss throws Error, too.
Tensor linear_cross_entropy_in_backward(const Tensor& x, const Tensor& w, const Tensor& labels,
                                        const Tensor& judged = {}, int64_t chunk_rows = 0,
                                        int64_t row_labels = 0);

// Adds this micro-batch's part of an evaluation to score, f64 [3] on x's device, chunk by chunk.
//   score[0] += -sum_r log softmax(l_r)[label[r]]
//   score[1] += the number of rows
//   score[2] += the number of rows whose largest logit, the first of equals, is at label[r].
// Rows with the label not_judged do not count. A row with a NaN is never right. Not differentiable.
// Throws Error as linear_cross_entropy does, and unless score is as above.
void add_linear_score(const Tensor& score, const Tensor& x, const Tensor& w, const Tensor& labels,
                      int64_t chunk_rows = 0);

// How often a training or an evaluation reads w: once for each chunk, or more often. Some also add
// every chunk to dw.
enum class HeadPass { reads_w_once, reads_w, adds_to_dw };

// The number of rows in a chunk, for `rows` rows with V logits and operands of `dtype`. The logits,
// and d where it lies apart, take about 64 MiB, but at least 64 rows. A pass that reads w once
// takes half as much. On cuda a pass that adds to dw takes three times as much, because each chunk
// reads and writes all of dw. Chunks are nearly equal. They have a multiple of 16 rows, which suits
// the products, unless there are fewer rows.
int64_t chunk_rows_for(int64_t rows, int64_t V, DType dtype, Device device, HeadPass pass);

}  // namespace detail

}  // namespace accrue
