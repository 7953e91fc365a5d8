#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace accrue::detail {

// x = n * ln 2 + r with |r| <= ln 2 / 2, and exp(r) - 1 by the polynomial of Moshier's Cephes
// library.
struct ReducedExp {
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the lowest bits of the sum.
  static constexpr float rounder = 0x1.8p23f;
  float shifted, exp_r_less_1;

  [[gnu::always_inline]] HOST_DEVICE explicit ReducedExp(float x) {
    constexpr float log2_e = 1.44269504f;
    shifted = x * log2_e + rounder;
    const float n = shifted - rounder;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    exp_r_less_1 = p * r * r + r;
  }
  // n
  [[gnu::always_inline]] HOST_DEVICE int32_t exponent() const {
    return std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(rounder);
  }
};

// exp(x) for x <= 88, computed by operations that the compiler can vectorise, unlike std::exp. In
// float the result is within 2 units of the last place; below x = -87, where it would be denormal,
// it is 0. NaN stays NaN.
[[gnu::always_inline]] HOST_DEVICE inline float vector_exp(float x) {
  const ReducedExp reduced(x);
  const uint32_t exponent = (std::bit_cast<uint32_t>(reduced.shifted) + 127u) << 23;
  const float y = (reduced.exp_r_less_1 + 1) * std::bit_cast<float>(exponent);
  return x < -87 ? 0 : y;
}
HOST_DEVICE inline double vector_exp(double x) { return std::exp(x); }

}  // namespace accrue::detail
