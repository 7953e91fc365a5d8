#pragma once

#include "core/view.h"

namespace accrue {

enum class Transpose { no, yes };

namespace cpu {

// C[m, n] = sum_k op(A)[m, k] op(B)[k, n] + beta * C[m, n], row-major, op by Transpose; beta 0
// does not read C. float by oneDNN where found, else by Eigen; double by Eigen.
// Raw pointers, because convolutions call it on parts of tensors.
template <class T>
void gemm(T* c, const T* a, const T* b, int64_t M, int64_t N, int64_t K, Transpose a_op,
          Transpose b_op, float beta);

}  // namespace cpu
}  // namespace accrue
