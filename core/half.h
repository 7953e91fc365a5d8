#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace accrue::detail {

// The two 16-bit floating-point formats. They only store values. Arithmetic happens in float: both
// formats convert to float implicitly and exactly. The conversion from float rounds to nearest,
// ties to even. It is explicit, so a sum that would round at every step does not compile.

// IEEE 754 binary16: 5 exponent bits, 10 fraction bits, values from 2^-24 to 65504, then infinity.
struct Half {
  uint16_t bits;

  Half() = default;
  constexpr explicit Half(float x) : bits(narrow(x)) {}
  static constexpr Half from_bits(uint16_t bits) { return std::bit_cast<Half>(bits); }
  constexpr operator float() const { return widen(bits); }

 private:
  [[gnu::always_inline]] static constexpr float widen(uint16_t x) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
#else
    const uint32_t sign = uint32_t{x} << 16 & 0x80000000u;
    const uint32_t exponent = x >> 10 & 0x1fu, fraction = x & 0x3ffu;
    // Zero or a denormal is fraction * 2^-24, exact in float. The code computes both cases and
    // masks one out: loops over this conversion then have no branch and are vectorised.
    const uint32_t wider = exponent == 0x1f ? 0xffu : exponent + 127 - 15;
    const uint32_t normal = wider << 23 | fraction << 13;
    const auto denormal =
        std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-24f);
    const uint32_t is_denormal = 0u - static_cast<uint32_t>(exponent == 0);
    return std::bit_cast<float>(sign | (denormal & is_denormal) | (normal & ~is_denormal));
#endif
  }

  [[gnu::always_inline]] static constexpr uint16_t narrow(float x) {
#ifdef __CUDA_ARCH__
    uint16_t rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return rounded;
#else
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    // Again the code computes every case, and masks choose one.
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    const uint32_t normal = (rounded - 0x38000000u) >> 13;
    // Below 2^-14: adding 0.5 lets the float unit round to 2^-24.
    const float small = std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f;
    const uint32_t denormal = std::bit_cast<uint32_t>(small) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? denormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above
    half = magnitude > 0x7f800000u ? 0x7e00u : half;   // NaN
    return static_cast<uint16_t>(sign | half);
#endif
  }
};

// The upper half of a float: 8 exponent bits, 7 fraction bits. A NaN stays a NaN; on a GPU it
// becomes 0x7fff.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  constexpr explicit BFloat16(float x) : bits(narrow(x)) {}
  static constexpr BFloat16 from_bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  [[gnu::always_inline]] static constexpr uint16_t narrow(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint16_t rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return rounded;
#else
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t is_nan = 0u - static_cast<uint32_t>((bits & 0x7fffffffu) > 0x7f800000u);
    return static_cast<uint16_t>((rounded & ~is_nan) | ((bits >> 16 | 0x40u) & is_nan));
#endif
  }
};

template <class T>
inline constexpr bool is_16_bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// The type for arithmetic on elements of type T: float for 16-bit types, else T itself.
template <class T>
using Wide = std::conditional_t<is_16_bit<T>, float, T>;

template <class T>
constexpr Wide<T> widen(T x) {
  return x;
}

}  // namespace accrue::detail
