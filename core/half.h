#pragma once

#include <bit>
#include <cstdint>

namespace accrue {

// The two 16-bit floating formats as they lie in memory. Arithmetic happens in float.

// IEEE 754 binary16: 5 exponent bits, 10 fraction bits; from 2^-24 to 65504.
struct Half {
  uint16_t bits;
};

// The upper half of a float: 8 exponent bits, 7 fraction bits.
struct BFloat16 {
  uint16_t bits;
};

constexpr float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

constexpr float to_float(Half x) {
  const uint32_t sign = uint32_t{x.bits} << 16 & 0x80000000u;
  const uint32_t exponent = x.bits >> 10 & 0x1fu, fraction = x.bits & 0x3ffu;
  // Zero or denormal is fraction * 2^-24, exact in float. Both ways are computed and one is masked
  // out, so that loops over this have no branch and are vectorised.
  const uint32_t wider = exponent == 0x1f ? 0xffu : exponent + 127 - 15;
  const uint32_t normal = wider << 23 | fraction << 13;
  const auto denormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-24f);
  const uint32_t is_denormal = 0u - static_cast<uint32_t>(exponent == 0);
  return std::bit_cast<float>(sign | (denormal & is_denormal) | (normal & ~is_denormal));
}

// Rounded to nearest, ties to even; a NaN stays one.
constexpr BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

constexpr Half to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 lets the float unit round to 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace accrue
