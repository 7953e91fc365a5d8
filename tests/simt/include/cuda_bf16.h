#pragma once

#include <bit>
#include <cstdint>

#include "vector_types.h"

// bfloat16 as a storage type: the upper half of a float. Arithmetic is done in float.

namespace simt {

// Rounds to nearest, ties to even. NaN becomes CUDA's canonical one.
inline uint16_t bfloat16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace simt

struct alignas(2) __nv_bfloat16_raw {
  unsigned short x;
};

struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits_(raw.x) {}
  __nv_bfloat16(float value) : bits_(simt::bfloat16_bits(value)) {}
  operator float() const { return std::bit_cast<float>(uint32_t(bits_) << 16); }
  operator __nv_bfloat16_raw() const { return {bits_}; }

 private:
  friend __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits);
  friend unsigned short __bfloat16_as_ushort(__nv_bfloat16 value);

  uint16_t bits_;
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return std::bit_cast<__nv_bfloat16>(bits);
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits_; }
inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 value) { return {value.x, value.y}; }
