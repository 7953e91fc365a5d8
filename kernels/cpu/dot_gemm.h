#pragma once

#include "kernels/cpu/gemm.h"

namespace accrue::cpu {

// gemm() of A B^T with at most few_rows rows of A, for float and double. A and B are read row by
// row, as they lie; each element of C has a vector of partial sums.
inline constexpr int64_t few_rows = 8;
template <class T>
void dot_gemm(T* c, const T* a, const T* b, const Gemm<T>& product);

}  // namespace accrue::cpu
