#pragma once

#include "kernels/cpu/gemm.h"

namespace accrue::cpu {

// True if the processor, and the oneDNN that this build has found, multiply bfloat16 themselves.
bool processor_multiplies_bfloat16();

// gemm() of bfloat16 where that is so; K must be above 0.
template <class C>
void gemm_bf16(C* c, const BFloat16* a, const BFloat16* b, const Gemm<BFloat16>& product);

}  // namespace accrue::cpu
