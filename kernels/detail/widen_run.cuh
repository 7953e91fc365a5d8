#pragma once

#include <cstdint>
#include <cstring>

#include "core/inside.h"
#include "kernels/quantized_blocks.h"

namespace accrue::cuda {

// `count` bytes of a block from `from` on. The count and the address are even.
template <int count, class Byte>
struct ByteRun {
  Byte values[count];

  __device__ explicit ByteRun(const Byte* from) {
    static_assert(count % alignof(Half) == 0);
    memcpy(values, __builtin_assume_aligned(from, alignof(Half)), sizeof(values));
  }
  __device__ int operator[](int i) const { return values[i]; }
};

// Sets out[0 .. count) to the elements of a block from `first` on, with the same bits as widen(),
// which takes a whole block. A run has at most 16 elements and starts at a multiple of its length.
// Its elements therefore share their scales and lie in the same bits of their bytes.
template <int count, class T>
__device__ void widen_run(const Q4_0& block, int first, T* __restrict__ out) {
  const float d = block.d;
  const int shift = first / 16 * 4;
  const ByteRun<count, uint8_t> quants(block.quants.data() + first % 16);
  for (int i = 0; i < count; ++i) out[i] = T(d * static_cast<float>((quants[i] >> shift & 15) - 8));
}

template <int count, class T>
__device__ void widen_run(const Q4_1& block, int first, T* __restrict__ out) {
  const float d = block.d, m = block.m;
  const int shift = first / 16 * 4;
  const ByteRun<count, uint8_t> quants(block.quants.data() + first % 16);
  for (int i = 0; i < count; ++i) out[i] = T(d * static_cast<float>(quants[i] >> shift & 15) + m);
}

// Calls use(i, q[first + i]) for a run of Q5_0 or Q5_1.
template <int count, class Block, class Use>
__device__ void for_each_of_5_bits(const Block& block, int first, Use&& use) {
  const int shift = first / 16 * 4;
  const ByteRun<4, uint8_t> high(block.high.data());
  const ByteRun<count, uint8_t> quants(block.quants.data() + first % 16);
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(high[i]) << 8 * i;
  bits >>= first;
  for (int i = 0; i < count; ++i)
    use(i, static_cast<float>((quants[i] >> shift & 15) | static_cast<int>(bits >> i & 1) << 4));
}

template <int count, class T>
__device__ void widen_run(const Q5_0& block, int first, T* __restrict__ out) {
  const float d = block.d;
  for_each_of_5_bits<count>(block, first, [=](int i, float q) { out[i] = T(d * (q - 16)); });
}

template <int count, class T>
__device__ void widen_run(const Q5_1& block, int first, T* __restrict__ out) {
  const float d = block.d, m = block.m;
  for_each_of_5_bits<count>(block, first, [=](int i, float q) { out[i] = T(d * q + m); });
}

template <int count, class T>
__device__ void widen_run(const Q8_0& block, int first, T* __restrict__ out) {
  const float d = block.d;
  const ByteRun<count, int8_t> quants(block.quants.data() + first);
  for (int i = 0; i < count; ++i) out[i] = T(d * static_cast<float>(quants[i]));
}

template <int count, class T>
__device__ void widen_run(const Q4_K& block, int first, T* __restrict__ out) {
  const int j = first / 32, shift = j % 2 * 4;
  const float scale = float(block.d) * static_cast<float>(block.scale(j));
  const float minimum = float(block.dmin) * static_cast<float>(block.minimum(j));
  const ByteRun<count, uint8_t> quants(block.quants.data() + j / 2 * 32 + first % 32);
  for (int i = 0; i < count; ++i)
    out[i] = T(scale * static_cast<float>(quants[i] >> shift & 15) - minimum);
}

template <int count, class T>
__device__ void widen_run(const Q6_K& block, int first, T* __restrict__ out) {
  const int h = first / 128, k = first / 32 % 4, low_shift = k / 2 * 4, high_shift = 2 * k;
  const float scale = float(block.d) * static_cast<float>(block.scales.data()[first / 16]);
  const ByteRun<count, uint8_t> low(block.low.data() + 64 * h + 32 * (k % 2) + first % 32);
  const ByteRun<count, uint8_t> high(block.high.data() + 32 * h + first % 32);
  for (int i = 0; i < count; ++i) {
    const int q = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
    out[i] = T(scale * static_cast<float>(q - 32));
  }
}

}  // namespace accrue::cuda
