#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"
#include "kernels/detail/vector_exp.h"

// Functions of any float, of operations that the compiler makes vectors of, which it does not of
// those in <cmath>. They are within 3 units of the last place. For double they are <cmath>'s.
namespace accrue::detail {

// 2^e, of two factors because e may be beyond the exponents of a float.
struct PowerOfTwo {
  float first, second;

  [[gnu::always_inline]] HOST_DEVICE explicit PowerOfTwo(int32_t e)
      : first(of_small(e >> 1)), second(of_small(e - (e >> 1))) {}
  [[gnu::always_inline]] HOST_DEVICE float times(float x) const { return x * first * second; }

 private:
  [[gnu::always_inline]] HOST_DEVICE static float of_small(int32_t e) {
    return std::bit_cast<float>((static_cast<uint32_t>(e) + 127u) << 23);
  }
};

// Beyond these numbers exp(x) is 0 or infinite.
[[gnu::always_inline]] HOST_DEVICE inline ReducedExp reduced_exp(float x) {
  return ReducedExp(x < -105 ? -105 : x > 89 ? 89 : x);
}

[[gnu::always_inline]] HOST_DEVICE inline float exp_of(float x) {
  const ReducedExp reduced = reduced_exp(x);
  return PowerOfTwo(reduced.exponent()).times(reduced.exp_r_less_1 + 1);
}
HOST_DEVICE inline double exp_of(double x) { return std::exp(x); }

[[gnu::always_inline]] HOST_DEVICE inline float expm1_of(float x) {
  const ReducedExp reduced = reduced_exp(x < 64 ? x : x > 64 ? 64 : x);
  const PowerOfTwo power(reduced.exponent());
  const float y = power.times(reduced.exp_r_less_1) + (power.times(1) - 1);
  return x > 64 ? exp_of(x) : y;
}
HOST_DEVICE inline double expm1_of(double x) { return std::expm1(x); }

// x = 2^e * (1 + m) with 1 + m from sqrt(1/2) to sqrt(2), and log(1 + m) by the polynomial of
// Moshier's Cephes library. A denormal x is made normal first.
[[gnu::always_inline]] HOST_DEVICE inline float log_of(float x) {
  constexpr float root_half = 0.707106781f, infinity = std::numeric_limits<float>::infinity();
  const bool is_small = x < std::numeric_limits<float>::min();
  const auto bits = std::bit_cast<uint32_t>(is_small ? x * 0x1p23f : x);
  const float half = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f000000u);
  const bool is_low = half < root_half;
  const float m = is_low ? half + half - 1 : half - 1;
  const float e = static_cast<float>(static_cast<int32_t>(bits >> 23 & 0xffu) - 126) -
                  (is_low ? 1.0f : 0.0f) - (is_small ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float correction = p * m * z + e * -2.12194440e-4f - 0.5f * z;
  const float y = m + correction + e * 0.693359375f;
  const float of_positive = x < infinity ? y : x;  // also a NaN's
  return x > 0 ? of_positive : x == 0 ? -infinity : x + std::numeric_limits<float>::quiet_NaN();
}
HOST_DEVICE inline double log_of(double x) { return std::log(x); }

// log(1 + x), of which 1 + x loses what is added again.
[[gnu::always_inline]] HOST_DEVICE inline float log1p_of(float x) {
  const float u = 1 + x, y = log_of(u) + (x - (u - 1)) / u;
  return u > 0 && u < std::numeric_limits<float>::infinity() ? y : log_of(u);
}
HOST_DEVICE inline double log1p_of(double x) { return std::log1p(x); }

}  // namespace accrue::detail
