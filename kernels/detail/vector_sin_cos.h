#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace accrue {

struct SinCos {
  double sin, cos;
};

// The sine and cosine of `quarter` quarters of a turn and r more, |r| <= pi / 4, by the polynomials
// of Sun's fdlibm.
[[gnu::always_inline]] HOST_DEVICE inline SinCos sin_cos_of_quarters(uint64_t quarter, double r) {
  const double z = r * r;
  double p = 1.58969099521155010221e-10;
  p = p * z - 2.50507602534068634195e-8;
  p = p * z + 2.75573137070700676789e-6;
  p = p * z - 1.98412698298579493134e-4;
  p = p * z + 8.33333333332248946124e-3;
  p = p * z - 1.66666666666666324348e-1;
  const double sin_r = r + r * z * p;
  double q = -1.13596475577881948265e-11;
  q = q * z + 2.08757232129817482790e-9;
  q = q * z - 2.75573143513906633035e-7;
  q = q * z + 2.48015872894767294178e-5;
  q = q * z - 1.38888888888741095749e-3;
  q = q * z + 4.16666666666666019037e-2;
  const double cos_r = 1 - z / 2 + z * z * q;
  const double sine = (quarter & 1) != 0 ? cos_r : sin_r;
  const double cosine = (quarter & 1) != 0 ? sin_r : cos_r;
  return {(quarter & 2) != 0 ? -sine : sine, ((quarter + 1) & 2) != 0 ? -cosine : cosine};
}

// The sine and cosine of x, computed by operations that the compiler can vectorise. On cuda they
// need no large tables, unlike functions for any x. They are as exact as x: within 2^-52 of the
// sine and cosine of some x' with |x' - x| <= 2^-53 |x|.
// x = n * pi / 2 + r with |r| <= pi / 4. pi / 2 is the sum of two parts. The first part has 33
// bits, so its product with n < 2^20 is exact.
[[gnu::always_inline]] HOST_DEVICE inline SinCos vector_sin_cos(double x) {
  // Adding 1.5 * 2^52 rounds to an integer, which is then in the lowest bits of the sum.
  constexpr double rounder = 0x1.8p52, two_over_pi = 0.63661977236758134308;
  const double shifted = x * two_over_pi + rounder, n = shifted - rounder;
  const double r = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
  return sin_cos_of_quarters(std::bit_cast<uint64_t>(shifted), r);
}

}  // namespace accrue
