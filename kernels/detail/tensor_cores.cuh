#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/half.h"
#include "core/inside.h"

// Tensor cores multiply matrices of 16-bit elements and add up in float. The lanes of a warp hold a
// matrix together, with two elements in each register ("Matrix fragments for mma.m16n8k16" in
// NVIDIA's PTX ISA). All lanes must call each of these functions together. They need compute
// capability 8.0 or newer. Where no GPU runs the kernels, the program that runs them must define
// these functions.

namespace accrue::cuda {

// Loads four matrices of 8 by 8. Lane l passes the address in shared memory at which row l % 8 of
// matrix l / 8 begins, a multiple of 16 bytes. It gets elements 2 (l % 4) and 2 (l % 4) + 1 of row
// l / 4 of each matrix.
__device__ void load_matrices(uint32_t (&to)[4], const void* row);
// The same, but lane l gets these elements of column l / 4.
__device__ void load_transposed_matrices(uint32_t (&to)[4], const void* row);

// c [16, 8] += a [16, 16] b [16, 8]. With g = l / 4 and t = 2 (l % 4), lane l holds
//    of a: columns t and t + 1 of rows g and g + 8, then columns t + 8 and t + 9 of both rows
//    of b: rows t and t + 1 of column g, then rows t + 8 and t + 9
//    of c: columns t and t + 1 of row g, then of row g + 8
__device__ void add_f16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
__device__ void add_bf16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
// Kernels that call these functions are not launched on such GPUs.
inline __device__ void load_matrices(uint32_t (&)[4], const void*) { __trap(); }
inline __device__ void load_transposed_matrices(uint32_t (&)[4], const void*) { __trap(); }
inline __device__ void add_f16_product(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t) {
  __trap();
}
inline __device__ void add_bf16_product(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t) {
  __trap();
}
#elif defined(__CUDACC__)
inline __device__ void load_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
inline __device__ void load_transposed_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
inline __device__ void add_f16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
inline __device__ void add_bf16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// The same for elements of type T.
template <class T>
__device__ void add_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, Half>) add_f16_product(c, a, b0, b1);
  else add_bf16_product(c, a, b0, b1);
}

// Returns both values, rounded to T.
template <class T>
__device__ uint32_t pair_of(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (std::is_same_v<T, Half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return uint32_t{T(low).bits} | uint32_t{T(high).bits} << 16;
#endif
}

}  // namespace accrue::cuda
