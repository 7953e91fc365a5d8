#pragma once

#include <cstdint>

// Operations of tensor cores for which there are PTX instructions, but no functions in CUDA's
// headers. kernels/detail/tensor_cores.cuh documents them; a kernel's host code links to the
// functions here.

namespace accrue::cuda {

void load_matrices(uint32_t (&to)[4], const void* row);
void load_transposed_matrices(uint32_t (&to)[4], const void* row);
void add_f16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void add_bf16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

}  // namespace accrue::cuda
