#pragma once

#include <algorithm>

#include "core/host_device.h"
#include "core/inside.h"
#include "core/rule.h"
#include "kernels/activation.h"
#include "kernels/detail/transpose.h"

namespace accrue {

// Products with a frozen weight w [R, C] that is stored in blocks, or in another type than the op
// computes in (core/dtype.h, is_stored_type()). The product converts one slab of w after the other
// to the dtype of the other operand, in scratch that stays in the cache, and multiplies it as an
// ordinary matrix. So it widens each block once, however many rows the other operand has.
//
// The rows of w may be in llama.cpp's order for the weights of queries and keys, whose heads of D
// rows it rotates in neighbouring pairs (RotaryLayout::interleaved). Then w is stored as [R / D, D
// / 2, 2, C], and row h * D + s * D / 2 + j of the matrix is [h, j, s], s < 2.

inline bool is_stored_otherwise(const Shape& w, DType stored, DType dtype) {
  return stored != dtype || w.rank() == 4;
}

// The shape [R, C] of the matrix for a stored shape.
inline Shape matrix_shape(const Shape& stored) {
  return stored.rank() == 4 ? Shape{stored.numel(0, 3), stored[3]} : stored;
}

// half_head() is D / 2, or 0 if the rows are stored in order. stored_row() is the index of the
// stored row for row r of the matrix.
inline int64_t half_head(const Shape& stored) { return stored.rank() == 4 ? stored[1] : 0; }
template <class Int>
HOST_DEVICE Int stored_row(Int r, Int half) {
  if (half == 0) return r;
  const Int in_head = r % (2 * half);
  return r - in_head + in_head % half * 2 + in_head / half;
}

struct Slab {
  int64_t row, column;  // its first ones in w
  int64_t rows, columns;
};

// The first and largest slab of a product by op(w) in this dtype. A slab has whole rows of w, so a
// product by w^T gives columns of the result. A product by w is then a sum over slabs, added in the
// order of rows. In 16 bits that sum would be rounded after each slab. There the product by w takes
// slabs of whole columns instead, which also give columns of the result. A slab has at most 256 Ki
// elements on the cpu and 32 MiB on cuda, 16 Mi elements in 16 bits, but at least 16 rows, or 16
// columns or the columns of a block.
Slab largest_slab(const View& w, Transpose w_op, DType dtype);

// The bytes of the scratch for a product by w or by w^T: a multiple of 256.
int64_t widened_bytes(const View& w, DType dtype);

template <class Use>
void for_each_slab(const View& w, Transpose w_op, DType dtype, Use&& use) {
  const Shape shape = matrix_shape(w.shape);
  const int64_t R = shape[0], C = shape[1];
  const Slab most = largest_slab(w, w_op, dtype);
  for (int64_t row = 0; row < R; row += most.rows)
    for (int64_t column = 0; column < C; column += most.columns)
      use(Slab{row, column, std::min(most.rows, R - row), std::min(most.columns, C - column)});
}

// The first columns of c and a that belong to a slab in c = a op(w) + beta * c, and the slab's
// beta.
struct SlabProduct {
  int64_t c_column, a_column;
  float beta;

  SlabProduct(const Slab& slab, Transpose w_op, float beta_of_all)
      : c_column(w_op == Transpose::yes ? slab.row : slab.column),
        a_column(w_op == Transpose::yes ? slab.column : slab.row),
        beta(a_column == 0 ? beta_of_all : 1) {}
};

namespace cpu {
// out[r, c] = w[row + r, column + c], rounded once to out's dtype. Slabs begin with whole blocks.
void widen_slab(View out, View w, int64_t row, int64_t column);

// c = act(a op(w) + bias) + beta * c, a [N, C] with Transpose::yes, and [N, R] without; bias may be
// empty. An activation requires beta 0. c has a's dtype or wide() of it. `scratch` has
// widened_bytes().
void quantized_matmul(GradTarget c, View a, View w, Transpose w_op, View bias,
                      Activation activation, View scratch);
}  // namespace cpu

namespace cuda {
decltype(cpu::widen_slab) widen_slab;
}

}  // namespace accrue
