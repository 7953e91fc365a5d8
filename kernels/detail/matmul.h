#pragma once

#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/backend.h"
#include "kernels/detail/transpose.h"

// These are the kernels of multiply() (kernels/linear.h), for other ops that multiply.

namespace accrue {

// The workspace of one product on cuda. It holds parts of c in float32, because sums are split
// every 64 terms, but has at most the 32 MiB that NVIDIA recommends, and at least 4 MiB. Its size
// follows from shapes: it can be predicted, and the three products of a layer have the same. The
// cpu needs none. For a weight w that is stored in another type, there is also room for a slab of w
// that is widened to `dtype` (kernels/quantized_matmul.h). more_bytes are added to its size.
Tensor matmul_workspace(int64_t M, int64_t N, int64_t K, Device device, int64_t more_bytes = 0);
Tensor matmul_workspace(int64_t M, int64_t N, int64_t K, Device device, const Tensor& w,
                        DType dtype);

// c = op(a) op(b) + beta * c for two-dimensional views. c may be Wide beside 16-bit operands. b may
// be quantized if a is not transposed.
namespace cpu {
void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace);
}
namespace cuda {
decltype(cpu::matmul) matmul;

// Elements from a row of c or a to the next, if it is part of a wider matrix; 0: its own width.
struct Strides {
  int64_t c = 0, a = 0;
};
// The same for such matrices; K must be above 0.
void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace,
            Strides strides);

// How many products of one shape are made together, and how many elements further the matrices of
// the next one are.
struct ProductBatch {
  int64_t count = 1, c = 0, a = 0, b = 0;

  auto operator<=>(const ProductBatch&) const = default;
};
// The same for several products: the views are the matrices of the first, whose sums have terms.
void matmul_batch(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace,
                  const ProductBatch& batch);
}  // namespace cuda

}  // namespace accrue
