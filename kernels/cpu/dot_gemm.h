#pragma once

#include "kernels/cpu/gemm.h"

namespace accrue::cpu {

// gemm() of a B^T with at most so many rows of A. A and B^T are read as they lie, row by row: a
// vector of partial sums for each element of C. Of float and double.
inline constexpr int64_t few_rows = 8;
template <class T>
void dot_gemm(T* c, const T* a, const T* b, const Gemm<T>& product);

}  // namespace accrue::cpu
