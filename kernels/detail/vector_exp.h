#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace accrue::detail {

// exp(x) for x <= 88, computed by operations that the compiler can vectorise, unlike std::exp. In
// float the result is within 2 units of the last place; below x = -87, where it would be denormal,
// it is 0. NaN stays NaN.
// x = n * ln 2 + r with |r| <= ln 2 / 2; exp(r) is the polynomial of Moshier's Cephes library.
[[gnu::always_inline]] HOST_DEVICE inline float vector_exp(float x) {
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the lowest bits of the sum.
  constexpr float rounder = 0x1.8p23f, log2_e = 1.44269504f;
  const float shifted = x * log2_e + rounder, n = shifted - rounder;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float exp_r = p * r * r + r + 1;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float y = exp_r * std::bit_cast<float>(exponent);
  return x < -87 ? 0 : y;
}
HOST_DEVICE inline double vector_exp(double x) { return std::exp(x); }

}  // namespace accrue::detail
