// The tensor cores' products of 16 by 16 and 16 by 8 matrices, of 16-bit elements added up in
// float. A lane reads its row of a matrix when it arrives, and so misses what other lanes write
// later.

#include "tensor_cores.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstring>
#include <string>

namespace simt {
namespace {

// The operands that the lanes of a warp give to an operation.
struct Given {
  uint16_t rows[warpSize][8];
  float a[16][16], b[16][8];
};
Given of_warps[32];  // of a block

Given& given() {
  return of_warps[((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / warpSize];
}

[[noreturn]] void refuse_matrix(const char* what) {
  refuse(std::string("a tensor core's operation ") + what);
  std::abort();
}

// Calls use() between two meetings of the warp: after all lanes have given their operands, and
// before any of them gives the next.
template <class Use>
void meet(Place place, Use&& use) {
  if (meet_warp(WarpOp::matrix, ~0u, true, 0, place) != ~0u)
    refuse_matrix("that a lane takes no part in");
  use();
  meet_warp(WarpOp::matrix, ~0u, true, 0, place);
}

void load(uint32_t (&to)[4], const void* row, bool transposed, Place place) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
    refuse_matrix("on a row that is not aligned to 16 bytes");
  Given& of_warp = given();
  std::memcpy(of_warp.rows[lane()], row, sizeof of_warp.rows[0]);
  meet(place, [&] {
    const unsigned g = lane() / 4, t = 2 * (lane() % 4);
    for (unsigned i = 0; i < 4; ++i) {
      const auto& matrix = of_warp.rows;
      const uint32_t low = transposed ? matrix[8 * i + t][g] : matrix[8 * i + g][t],
                     high = transposed ? matrix[8 * i + t + 1][g] : matrix[8 * i + g][t + 1];
      to[i] = low | high << 16;
    }
  });
}

float widen(uint16_t bits, bool is_bfloat16) {
  return is_bfloat16 ? float(__ushort_as_bfloat16(bits)) : float(__ushort_as_half(bits));
}

void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool is_bfloat16,
              Place place) {
  Given& of_warp = given();
  const unsigned g = lane() / 4, t = 2 * (lane() % 4);
  const uint32_t b[2] = {b0, b1};
  for (unsigned high = 0; high < 2; ++high) {
    const auto element = [&](uint32_t pair) {
      return widen(static_cast<uint16_t>(pair >> 16 * high), is_bfloat16);
    };
    for (unsigned i = 0; i < 4; ++i) of_warp.a[g + i % 2 * 8][t + i / 2 * 8 + high] = element(a[i]);
    for (unsigned i = 0; i < 2; ++i) of_warp.b[t + 8 * i + high][g] = element(b[i]);
  }
  meet(place, [&] {
    for (unsigned i = 0; i < 4; ++i) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += of_warp.a[g + i / 2 * 8][k] * of_warp.b[k][t + i % 2];
      c[i] += sum;
    }
  });
}

}  // namespace
}  // namespace simt

namespace accrue::cuda {

void load_matrices(uint32_t (&to)[4], const void* row) {
  simt::load(to, row, false, simt::Place::current());
}
void load_transposed_matrices(uint32_t (&to)[4], const void* row) {
  simt::load(to, row, true, simt::Place::current());
}
void add_f16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  simt::multiply(c, a, b0, b1, false, simt::Place::current());
}
void add_bf16_product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  simt::multiply(c, a, b0, b1, true, simt::Place::current());
}

}  // namespace accrue::cuda
