#pragma once

#include "kernels/cpu/gemm.h"

namespace accrue::cpu {

// True if the product is large enough to repay copies of A and B. False with AVX-512, where this
// way has not been measured.
template <class T>
bool packing_pays(const Gemm<T>& product);

// gemm() from copies of A and B, which have their elements in the order in which the blocks of C
// read them. C itself holds the sums, which are cut as in gemm().
template <class T>
void packed_gemm(T* c, const T* a, const T* b, const Gemm<T>& product);

}  // namespace accrue::cpu
