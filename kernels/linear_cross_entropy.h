#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace accrue {

namespace detail {
enum class OwnLogit { counts, left_out };
}  // namespace detail

// The head of a language model and its loss, in chunks of rows, so that neither the logits
// [rows, V] nor their gradient exist as a whole:
//   loss = 1/n sum_r -log softmax(l_r)[label[r]],   l_r[v] = sum_e x[r, e] * w[v, e]
// over the n rows r that count. x [..., E] has rows of E elements, w [V, E] is a parameter, labels
// are i32 [N, ...] in [0, V), one for each row. All rows count unless `judged` is
// judged_weight(labels) (kernels/judged.h): then those whose label is not_judged do not, and
// without any other the loss and the gradients are 0.
// Backward, with d[r, v] = dloss/n * (softmax(l_r)[v] - [v = label[r]]), or 0 in rows that do not
// count:
//   dw[v, e] = sum_r d[r, v] * x[r, e]      dx[r, e] = sum_v d[r, v] * w[v, e]
// d lies where the logits did. dw is added up by its target's beta, chunk after chunk, in float32
// also in 16 bits, where logits are float32 and d is 16-bit. It also takes a LossSeed.
// Keeps x (and writes dx over it when nobody else holds it), w, labels, judged, the maximum and the
// sum of exponentials of each row, and the last chunk's logits, with which backward begins: their
// memory is needed at that moment anyway. The logits of other chunks are computed again. Where w
// wants no gradient, and not in 16 bits, forward makes dx for dloss = 1 of each chunk's logits, and
// keeps nothing else: backward multiplies it.
// Rows that do not count cost nothing on the cpu, where the others are gathered into chunks. On
// cuda, where the host does not know the labels, all rows are computed.
// With OwnLogit::left_out row r's logit of r itself is left out of its softmax, as if it were
// -infinity: for rows that are compared with each other, w being x or a multiple of it. chunk_rows
// is the number of rows in a chunk; 0 takes chunk_rows_for(). Where labels [N, t] are pieces of
// longer rows, `row_labels` is the number of labels in a row, and `judged` is that of whole rows: n
// then counts them whole, and the losses of the pieces add up to that of the rows. Scratch of c
// rows in a chunk, beside the logits: 8 bytes a row of x; with `judged`, on the cpu, 4 more and c *
// E elements in the type of the sums; in 16 bits, in backward, c * V elements for d; on cuda what a
// product needs (4 to 32 MiB), and rows of logits and of d are V elements rounded up to multiples
// of 64. w may be stored otherwise (kernels/quantized_matmul.h), and then it wants no gradient.
// Throws Error unless the shapes and dtypes agree, a w that wants a gradient is float32 beside
// 16 bits, every label is in range, and x has as many rows as w where their own is left out; on
// Device::cuda a label out of range gives a NaN loss and NaN in its row of dx and in all of dw.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& labels,
                            const Tensor& judged = {}, int64_t chunk_rows = 0,
                            int64_t row_labels = 0,
                            detail::OwnLogit own = detail::OwnLogit::counts);

namespace detail {

// Adds this micro-batch's part of an evaluation to score, f64 [3] on x's device, chunk by chunk:
//   score[0] += -sum_r log softmax(l_r)[label[r]]
//   score[1] += the number of rows
//   score[2] += the number of rows whose largest logit, the first of equals, is at label[r]
// over the rows whose label is not not_judged. A row with a NaN is never right. Not differentiable.
// Throws Error as linear_cross_entropy does, and unless score is as above.
void add_linear_score(const Tensor& score, const Tensor& x, const Tensor& w, const Tensor& labels,
                      int64_t chunk_rows = 0);

// The rows of a chunk, of `rows` rows with V logits beside operands of `dtype`: logits, and d where
// it lies apart, take about 64 MiB, but at least 64 rows; half as much for a frozen head, of which
// no chunk is computed again. Chunks are nearly equal, and of multiples of 16 rows, as products
// like them, unless the rows are fewer.
int64_t chunk_rows_for(int64_t rows, int64_t V, DType dtype, bool is_frozen = false);

}  // namespace detail

}  // namespace accrue
