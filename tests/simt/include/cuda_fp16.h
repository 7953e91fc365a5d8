#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "vector_types.h"

// IEEE half as a storage type: 1 sign, 5 exponent and 10 mantissa bits. Arithmetic is done in
// float.

namespace simt {

// Rounds to nearest, ties to even. NaN becomes CUDA's canonical one.
inline uint16_t half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint16_t sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // at least halfway from 65504 to 65536
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, a multiple of 2^-24
    return sign | uint16_t(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f));
  }
  return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude < 0x400) return std::copysign(magnitude * 0x1p-24f, std::bit_cast<float>(sign));
  const uint32_t exponent_shift = magnitude >= 0x7c00 ? 0x70000000 : 0x38000000;
  return std::bit_cast<float>(sign | ((magnitude << 13) + exponent_shift));
}

}  // namespace simt

struct alignas(2) __half_raw {
  unsigned short x;
};

struct alignas(2) __half {
  __half() = default;
  __half(const __half_raw& raw) : bits_(raw.x) {}
  __half(float value) : bits_(simt::half_bits(value)) {}
  operator float() const { return simt::half_value(bits_); }
  operator __half_raw() const { return {bits_}; }

 private:
  friend __half __ushort_as_half(unsigned short bits);
  friend unsigned short __half_as_ushort(__half value);

  uint16_t bits_;
};

struct alignas(4) __half2 {
  __half x, y;
};

using half = __half;
using half2 = __half2;

inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
inline unsigned short __half_as_ushort(__half value) { return value.bits_; }
inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float __half2float(__half value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline float2 __half22float2(__half2 value) { return {value.x, value.y}; }
