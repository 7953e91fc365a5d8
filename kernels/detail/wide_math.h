#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"

// Functions of a float that are computed in double, by operations that the compiler makes vectors
// of. Before it is rounded, a result is within 2^-30 of the exact one, which makes 1/2 + 2^-6 units
// of the last place. For double, and on cuda, they are <cmath>'s; but kernels on cuda take sines,
// cosines and tangents from kernels/detail/sin_cos.cuh.
namespace accrue::detail {

// Horner's rule: c[0] + c[1] z + c[2] z^2 + ...
template <size_t n>
[[gnu::always_inline]] inline double polynomial(const double (&c)[n], double z) {
  double sum = c[n - 1];
#pragma GCC unroll 32
  for (size_t i = n - 1; i > 0; --i) sum = sum * z + c[i - 1];
  return sum;
}

// Adding 1.5 * 2^52 rounds to an integer, which is then in the lowest bits of the sum.
inline constexpr double double_rounder = 0x1.8p52;

// exp(x), where a result below or above floats may be another one that is. x = n * ln 2 + r with
// |r| <= ln 2 / 2; exp(r) is Taylor's polynomial.
[[gnu::always_inline]] inline double wide_exp(double x) {
  constexpr double taylor[] = {1,         1,         1.0 / 2,    1.0 / 6,     1.0 / 24,
                               1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880};
  const double near = x < -200 ? -200 : x > 200 ? 200 : x;
  const double shifted = near * 1.4426950408889634 + double_rounder, n = shifted - double_rounder;
  const double r = near - n * 0.69314718055994531;
  const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return polynomial(taylor, r) * std::bit_cast<double>(exponent);
}

// log(x) of an x that is no denormal double. x = 2^e * m with m from sqrt(1/2) to sqrt(2), and
// log(m) = 2 artanh(s), s = (m - 1) / (m + 1), by Taylor's polynomial.
[[gnu::always_inline]] inline double wide_log(double x) {
  constexpr double taylor[] = {2, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13};
  constexpr double infinity = std::numeric_limits<double>::infinity(), two_to_52 = 0x1p52;
  const auto bits = std::bit_cast<uint64_t>(x);
  // An integer below 2^52 is the lowest bits of a number from 2^52 on.
  const double exponent =
      std::bit_cast<double>(bits >> 52 | std::bit_cast<uint64_t>(two_to_52)) - (two_to_52 + 1023);
  const double significand =
      std::bit_cast<double>((bits & 0xfffffffffffff) | std::bit_cast<uint64_t>(1.0));
  const bool is_high = significand > 1.4142135623730951;
  const double m = is_high ? significand / 2 : significand;
  const double e = is_high ? exponent + 1 : exponent;
  const double s = (m - 1) / (m + 1);
  const double y = e * 0.69314718055994531 + s * polynomial(taylor, s * s);
  const double of_positive = x < infinity ? y : x;  // also a NaN's
  return x > 0 ? of_positive : x == 0 ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

// A float's size is its significand, an integer below 2^24, times 2^(e - 150), e its exponent's
// bits. The rows of this table are 2^(e - 150) * 2 / pi modulo 4, as a sum of 28 and 53 bits. So
// the first product is exact.
struct QuarterTurns {
  double first[256], rest[256];

  constexpr QuarterTurns() : first(), rest() {
    // The binary digits of 2 / pi.
    constexpr uint32_t digits[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                   0xf534ddc0, 0xdb629599, 0x3c439041};
    const auto digit = [&](int k) { return digits[(k - 1) / 32] >> (31 - (k - 1) % 32) & 1; };
    for (int e = 1; e < 255; ++e) {
      const int scale = e - 150, begin = scale > 2 ? scale - 1 : 1;
      double weight = 1;
      for (int i = scale - begin; i < 0; ++i) weight /= 2;
      for (int i = scale - begin; i > 0; --i) weight *= 2;
      for (int k = begin; k < begin + 81; ++k, weight /= 2)
        if (digit(k)) (k < begin + 28 ? first : rest)[e] += weight;
    }
    first[0] = first[1], rest[0] = rest[1];  // denormal numbers
    first[255] = rest[255] = std::numeric_limits<double>::quiet_NaN();
  }
};
inline constexpr QuarterTurns quarter_turns;

// y, or -y if x is negative or -0.
[[gnu::always_inline]] inline float odd_of(float x, double y) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(y)) ^ sign);
}

// The sine and cosine of any |x|, x = n * pi / 2 + r with |r| <= pi / 4.
struct WideSinCos {
  double sin, cos;

  [[gnu::always_inline]] explicit WideSinCos(float x) {
    constexpr double of_sin[] = {1,           -1.0 / 6,     1.0 / 120,
                                 -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800};
    constexpr double of_cos[] = {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800};
    const auto bits = std::bit_cast<uint32_t>(x);
    const auto e = static_cast<int64_t>(bits >> 23 & 255);
    const auto significand = static_cast<int32_t>((bits & 0x7fffff) | (e != 0 ? 0x800000u : 0u));
    const double first = significand * quarter_turns.first[e],
                 rest = significand * quarter_turns.rest[e];
    const double shifted = (first + rest) + double_rounder, n = shifted - double_rounder;
    const double r = ((first - n) + rest) * 1.5707963267948966;
    const double z = r * r, sin_r = r * polynomial(of_sin, z), cos_r = polynomial(of_cos, z);
    const auto quarter = std::bit_cast<uint64_t>(shifted);
    const double sine = (quarter & 1) != 0 ? cos_r : sin_r;
    const double cosine = (quarter & 1) != 0 ? sin_r : cos_r;
    sin = (quarter & 2) != 0 ? -sine : sine;
    cos = ((quarter + 1) & 2) != 0 ? -cosine : cosine;
  }
  [[gnu::always_inline]] double tan() const { return sin / cos; }
};

// The polynomials of erf, arcsine and arctangent interpolate these in Chebyshev's points.

[[gnu::always_inline]] inline double wide_erf(double x) {
  // The polynomial is erf(x) / x in x^2 / 8 - 1, from 0 to 4, where erf rounds to 1.
  constexpr double c[] = {0.35353099564340496,     -0.17657623580039056,   0.13167511777580796,
                          -0.1077102928865076,     0.090208941343430258,   -0.074730486795578178,
                          0.059887829575686275,    -0.045744312685399672,  0.033053291738967594,
                          -0.022562558254619066,   0.014381038603613837,   -0.0083840443563666938,
                          0.0047749464891676039,   -0.0029097128615879735, 0.0014101525981302071,
                          -0.00032551968560941488, 0.00017322967630806509, -0.00024642199980983505,
                          9.4038124024685538e-5};
  const double near = x < -4 ? -4 : x > 4 ? 4 : x;
  return near * polynomial(c, near * near / 8 - 1);
}

// |x| is at most 1/2.
[[gnu::always_inline]] inline double wide_asin_near_0(double x) {
  constexpr double c[] = {1.000000000000825,   0.16666666613278706,   0.075000056558218821,
                          0.04464056469220037, 0.030428119019079429,  0.021855742599843482,
                          0.02068132717169167, 0.0019156113431105126, 0.032957594700848807};
  return x * polynomial(c, x * x);
}

// Elsewhere |x| is 1 - 2 s^2, and arcsin(1 - 2 s^2) = pi / 2 - 2 arcsin(s).
[[gnu::always_inline]] inline double wide_asin(double x) {
  const double size = x < 0 ? -x : x;
  const bool is_near_0 = size <= 0.5;
  const double y = wide_asin_near_0(is_near_0 ? x : std::sqrt((1 - size) / 2));
  const double of_size = 1.5707963267948966 - 2 * y;
  return is_near_0 ? y : x < 0 ? -of_size : of_size;
}
[[gnu::always_inline]] inline double wide_acos(double x) {
  const double size = x < 0 ? -x : x;
  const bool is_near_0 = size <= 0.5;
  const double y = wide_asin_near_0(is_near_0 ? x : std::sqrt((1 - size) / 2));
  return is_near_0 ? 1.5707963267948966 - y : x < 0 ? 3.1415926535897932 - 2 * y : 2 * y;
}

[[gnu::always_inline]] inline double wide_atan(double x) {
  // The polynomial is arctan(t) / t in t^2, from 0 to 1.
  constexpr double c[] = {0.99999999992930368,   -0.33333331290889988,  0.19999901102171554,
                          -0.14283813255743194,  0.11091922963683302,   -0.089741719583638811,
                          0.072282783453772522,  -0.053956680571371718, 0.033826218952786872,
                          -0.015828322749149416, 0.0047324841934219207, -0.00066339545711047872};
  const double size = x < 0 ? -x : x;
  const bool is_far = size > 1;
  const double t = is_far ? 1 / x : x, y = t * polynomial(c, t * t);
  return is_far ? (x < 0 ? -1.5707963267948966 : 1.5707963267948966) - y : y;
}

// Near 0 exp(x) - exp(-x) would lose digits.
[[gnu::always_inline]] inline double wide_sinh(double x) {
  constexpr double taylor[] = {1, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880};
  const double e = wide_exp(x), far = (e - 1 / e) / 2, near = x * polynomial(taylor, x * x);
  return -0.5 < x && x < 0.5 ? near : far;
}
[[gnu::always_inline]] inline double wide_cosh(double x) {
  const double e = wide_exp(x);
  return (e + 1 / e) / 2;
}

// So would logarithms of a number near 1.
[[gnu::always_inline]] inline double wide_asinh(double x) {
  const double size = x < 0 ? -x : x, far = wide_log(size + std::sqrt(size * size + 1));
  const double of_size = x < 0 ? -far : far;
  return size < 0x1p-10 ? x * (1 - x * x / 6) : of_size;
}
[[gnu::always_inline]] inline double wide_acosh(double x) {
  const double y = wide_log(x + std::sqrt(x * x - 1));
  return x >= 1 ? y : std::numeric_limits<double>::quiet_NaN();
}
[[gnu::always_inline]] inline double wide_atanh(double x) {
  const double size = x < 0 ? -x : x, far = wide_log((1 + x) / (1 - x)) / 2;
  return size < 0x1p-10 ? x + x * x * x / 3 : far;
}

// All bits if the condition holds, else none. GCC makes no vectors of a choice by a condition that
// is the same for all elements.
[[gnu::always_inline]] inline uint64_t all_bits_if(bool condition) {
  return -static_cast<uint64_t>(condition);
}

// x to the power y by C's rules for zeros, infinities and NaN.
[[gnu::always_inline]] inline double wide_pow(double x, double y) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), huge = 1e300;
  constexpr uint64_t sign = uint64_t{1} << 63, quiet_nan = 0x7ff8000000000000;
  const double half = y / 2, nearest = (y + double_rounder) - double_rounder,
               nearest_half = (half + double_rounder) - double_rounder;
  // From here on a float is an even integer. Some are too large to be rounded by a sum.
  const uint64_t is_large = all_bits_if(y >= 0x1p26) | all_bits_if(y <= -0x1p26);
  const uint64_t is_integer = all_bits_if(y == nearest) | is_large;
  const uint64_t sign_of_odd = is_integer & ~is_large & all_bits_if(half != nearest_half) & sign;
  const uint64_t nan_unless_integer = ~is_integer & quiet_nan;
  const uint64_t power_of_nan =
      (all_bits_if(y == 0) & std::bit_cast<uint64_t>(1.0)) | (all_bits_if(y != 0) & quiet_nan);

  // A finite logarithm, because y may be 0.
  const double size = x < 0 ? -x : x, log = wide_log(size);
  const double from_below = log > -huge ? log : -huge;
  const double far = wide_exp(y * (from_below < huge ? from_below : huge));
  const double of_size = size == 1 ? 1.0 : far;
  const uint64_t nan_of_finite = size < infinity ? nan_unless_integer : 0;
  const uint64_t nan_of_negative = size == 0 ? 0 : nan_of_finite;
  const double of_negative =
      std::bit_cast<double>((std::bit_cast<uint64_t>(of_size) ^ sign_of_odd) | nan_of_negative);
  const double of_number =
      static_cast<int64_t>(std::bit_cast<uint64_t>(x)) < 0 ? of_negative : of_size;
  const double of_x = x == 1 ? 1.0 : of_number;
  return x == x ? of_x : std::bit_cast<double>(power_of_nan);
}

#ifdef __CUDA_ARCH__
#define ACCRUE_OF_DEVICE(on_cuda, on_cpu) (on_cuda)
#else
#define ACCRUE_OF_DEVICE(on_cuda, on_cpu) static_cast<float>(on_cpu)
#endif
#define ACCRUE_WIDE_FUNCTION(name, on_cpu)                             \
  [[gnu::always_inline]] HOST_DEVICE inline float name##_of(float x) { \
    return ACCRUE_OF_DEVICE(std::name(x), on_cpu);                     \
  }                                                                    \
  HOST_DEVICE inline double name##_of(double x) { return std::name(x); }

ACCRUE_WIDE_FUNCTION(erf, wide_erf(x))
ACCRUE_WIDE_FUNCTION(sin, odd_of(x, WideSinCos(x).sin))
ACCRUE_WIDE_FUNCTION(cos, WideSinCos(x).cos)
ACCRUE_WIDE_FUNCTION(tan, odd_of(x, WideSinCos(x).tan()))
ACCRUE_WIDE_FUNCTION(asin, wide_asin(x))
ACCRUE_WIDE_FUNCTION(acos, wide_acos(x))
ACCRUE_WIDE_FUNCTION(atan, wide_atan(x))
ACCRUE_WIDE_FUNCTION(sinh, wide_sinh(x))
ACCRUE_WIDE_FUNCTION(cosh, wide_cosh(x))
ACCRUE_WIDE_FUNCTION(asinh, wide_asinh(x))
ACCRUE_WIDE_FUNCTION(acosh, wide_acosh(x))
ACCRUE_WIDE_FUNCTION(atanh, wide_atanh(x))

[[gnu::always_inline]] HOST_DEVICE inline float pow_of(float x, float y) {
  return ACCRUE_OF_DEVICE(std::pow(x, y), wide_pow(x, y));
}
HOST_DEVICE inline double pow_of(double x, double y) { return std::pow(x, y); }

#undef ACCRUE_WIDE_FUNCTION
#undef ACCRUE_OF_DEVICE

}  // namespace accrue::detail
