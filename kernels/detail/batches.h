#pragma once

#include <cstdint>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/detail/transpose.h"

namespace accrue {

// The matrices of a batched product c = a b, where each has its own dimensions before the last two.
// A matrix of c is the sum of the products that broadcast dimensions of c, of stride 0, give it.
struct Batches {
  static constexpr int most = Shape::max_rank - 2;
  // Strides in matrices.
  struct Dimension {
    int64_t size = 1, c = 0, a = 0, b = 0;
  };
  struct Matrices {
    int64_t c = 0, a = 0, b = 0;
  };
  // Neighbouring dimensions that act as one are one. The innermost comes last.
  struct Dimensions {
    Dimension at[most];
    int rank = 0;
    int64_t count = 1;

    void add(const Dimension& inner);
    Matrices matrices(int64_t i) const;
  };
  Dimensions targets, terms;

  // Batch shapes: of all products, and of the three operands, which broadcast to it.
  Batches(const Shape& all, const Shape& c, const Shape& a, const Shape& b);
};

// The shape before the last two dimensions.
inline Shape batch_shape(const Shape& x) {
  return Shape(x.sizes().first(static_cast<size_t>(x.rank() - 2)));
}

// A product's sizes, as its matrices lie.
struct ProductSizes {
  int64_t M, N, K;

  ProductSizes(const View& c, const View& a, Transpose a_op)
      : M(c.shape[-2]), N(c.shape[-1]), K(a.shape[a_op == Transpose::yes ? -2 : -1]) {}
};

// The kernel whose c is rounded once keeps its sums elsewhere.
inline bool sums_elsewhere(const Batches& batches, DType dtype) {
  return batches.terms.count > 1 && is_16_bit_dtype(dtype);
}

}  // namespace accrue
