#include "kernels/cpu/erfc.h"

#include <algorithm>
#include <bit>
#include <cmath>

// This source is compiled without fused multiplications and additions, because they round once
// where the C library rounds twice.
//
// The coefficients of erfc and the way to use them are from FDLIBM's s_erf.c:
//   Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//   Developed at SunPro, a Sun Microsystems, Inc. business.
//   Permission to use, copy, modify, and distribute this software is freely granted, provided that
//   this notice is preserved.
// as Ian Lance Taylor, Cygnus Support, made floats of them. The table, the coefficients and the
// steps of exp are from expf in Arm's optimized routines:
//   Copyright (c) 2017, Arm Limited. Apache License, Version 2.0.
namespace accrue {
namespace {

// The bits of 2^(i / 32), less i << 47. GCC makes vectors of loops that read it by a pointer.
constexpr uint64_t powers_of_two[32] = {
    0x3ff0000000000000, 0x3fefd9b0d3158574, 0x3fefb5586cf9890f, 0x3fef9301d0125b51,
    0x3fef72b83c7d517b, 0x3fef54873168b9aa, 0x3fef387a6e756238, 0x3fef1e9df51fdee1,
    0x3fef06fe0a31b715, 0x3feef1a7373aa9cb, 0x3feedea64c123422, 0x3feece086061892d,
    0x3feebfdad5362a27, 0x3feeb42b569d4f82, 0x3feeab07dd485429, 0x3feea47eb03a5585,
    0x3feea09e667f3bcd, 0x3fee9f75e8ec5f74, 0x3feea11473eb0187, 0x3feea589994cce13,
    0x3feeace5422aa0db, 0x3feeb737b0cdc5e5, 0x3feec49182a3f090, 0x3feed503b23e255d,
    0x3feee89f995ad3ad, 0x3feeff76f2fb5e47, 0x3fef199bdd85529c, 0x3fef3720dcef9069,
    0x3fef5818dcfba487, 0x3fef7c97337b9b5f, 0x3fefa4afa2a490da, 0x3fefd0765b6e4540,
};

// exp(x) = 2^(n / 32) * 2^(r / 32), n an integer, |r| <= 1/2, computed in double.
[[gnu::always_inline]] inline float exp_of_library(float x, const uint64_t* powers) {
  constexpr double steps = 0x1.71547652b82fep+5, rounder = 0x1.8p+52;  // 32 / ln 2
  constexpr double c0 = 0x1.c6af84b912394p-20, c1 = 0x1.ebfce50fac4f3p-13,
                   c2 = 0x1.62e42ff0c52d6p-6;
  const float near = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const double z = steps * static_cast<double>(near), shifted = z + rounder;
  const auto n = std::bit_cast<uint64_t>(shifted);
  const double r = z - (shifted - rounder);
  const auto power = std::bit_cast<double>(powers[n % 32] + (n << 47));
  return static_cast<float>(((c0 * r + c1) * (r * r) + (c2 * r + 1.0)) * power);
}

// Horner's rule: c[0] + z c[1] + z^2 c[2] + ...
template <int n>
[[gnu::always_inline]] inline float polynomial_of_library(const float (&c)[n], float z) {
  float sum = c[n - 1];
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; --i) sum = c[i] + z * sum;
  return sum;
}

// |x| < 0.84375
[[gnu::always_inline]] inline float erfc_near_0(float x) {
  constexpr float p[] = {1.2837916613e-01f, -3.2504209876e-01f, -2.8481749818e-02f,
                         -5.7702702470e-03f, -2.3763017452e-05f};
  constexpr float q[] = {1,
                         3.9791721106e-01f,
                         6.5022252500e-02f,
                         5.0813062117e-03f,
                         1.3249473704e-04f,
                         -3.9602282413e-06f};
  const float z = x * x, y = polynomial_of_library(p, z) / polynomial_of_library(q, z);
  return x < 0.25f ? 1 - (x + x * y) : 0.5f - (x * y + (x - 0.5f));
}

// 0.84375 <= size = |x| < 1.25
[[gnu::always_inline]] inline float erfc_near_1(float x, float size) {
  constexpr float erf_1 = 8.4506291151e-01f;
  constexpr float p[] = {-2.3621185683e-03f, 4.1485610604e-01f,  -3.7220788002e-01f,
                         3.1834661961e-01f,  -1.1089469492e-01f, 3.5478305072e-02f,
                         -2.1663755178e-03f};
  constexpr float q[] = {1,
                         1.0642088205e-01f,
                         5.4039794207e-01f,
                         7.1828655899e-02f,
                         1.2617121637e-01f,
                         1.3637083583e-02f,
                         1.1984500103e-02f};
  const float z = size - 1, y = polynomial_of_library(p, z) / polynomial_of_library(q, z);
  return x >= 0 ? (1 - erf_1) - y : 1 + (erf_1 + y);
}

// 1.25 <= size = |x|: exp(-x^2) / |x| times a quotient of polynomials in 1 / x^2, one up to 1 /
// 0.35 and another from there on. -x^2 is a sum of -z^2, which is exact, and a small rest.
[[gnu::always_inline]] inline float erfc_far(float x, float size, const uint64_t* powers) {
  constexpr float p[2][8] = {
      {-9.8649440333e-03f, -6.9385856390e-01f, -1.0558626175e+01f, -6.2375331879e+01f,
       -1.6239666748e+02f, -1.8460508728e+02f, -8.1287437439e+01f, -9.8143291473e+00f},
      {-9.8649431020e-03f, -7.9928326607e-01f, -1.7757955551e+01f, -1.6063638306e+02f,
       -6.3756646729e+02f, -1.0250950928e+03f, -4.8351919556e+02f, 0}};
  constexpr float q[2][9] = {
      {1, 1.9651271820e+01f, 1.3765776062e+02f, 4.3456588745e+02f, 6.4538726807e+02f,
       4.2900814819e+02f, 1.0863500214e+02f, 6.5702495575e+00f, -6.0424413532e-02f},
      {1, 3.0338060379e+01f, 3.2579251099e+02f, 1.5367296143e+03f, 3.1998581543e+03f,
       2.5530502930e+03f, 4.7452853394e+02f, -2.2440952301e+01f, 0}};
  const auto bits = std::bit_cast<uint32_t>(size);
  const bool is_nearer = bits < 0x4036db6du;
  const float s = 1 / (size * size);
  float above = is_nearer ? p[0][7] : p[1][7], below = is_nearer ? q[0][8] : q[1][8];
#pragma GCC unroll 16
  for (int i = 6; i >= 0; --i) above = (is_nearer ? p[0][i] : p[1][i]) + s * above;
#pragma GCC unroll 16
  for (int i = 7; i >= 0; --i) below = (is_nearer ? q[0][i] : q[1][i]) + s * below;
  const auto z = std::bit_cast<float>(bits & 0xffffe000u);
  const float e = exp_of_library(-z * z - 0.5625f, powers) *
                  exp_of_library((z - size) * (z + size) + above / below, powers);
  const float of_size = size < 28 ? e / size : 0;
  return x > 0 ? of_size : x < -6 ? 2 : 2 - of_size;
}

}  // namespace

// Few values of a network are far from 0, and they take the longest: they are computed together.
void cpu::erfc_over(float* x, int64_t n) {
  constexpr int64_t most = 256;
  const uint64_t* const powers = powers_of_two;
  float values[most];
  int32_t places[most];
  for (int64_t begin = 0; begin < n; begin += most) {
    float* const piece = x + begin;
    const int64_t size_of_piece = std::min(most, n - begin);
    int64_t count = 0;
    for (int64_t i = 0; i < size_of_piece; ++i) {
      places[count] = static_cast<int32_t>(i);
      count += std::abs(piece[i]) >= 1.25f;
    }
    for (int64_t i = 0; i < count; ++i) values[i] = piece[places[i]];
    for (int64_t i = 0; i < size_of_piece; ++i) {
      const float at = piece[i], size = at < 0 ? -at : at;
      const float near = erfc_near_0(at), middle = erfc_near_1(at, size);
      const float y = size < 0.84375f ? near : middle;
      piece[i] = at != at ? at : y;
    }
    for (int64_t i = 0; i < count; ++i)
      values[i] = erfc_far(values[i], std::abs(values[i]), powers);
    for (int64_t i = 0; i < count; ++i) piece[places[i]] = values[i];
  }
}

void cpu::exp_over(float* x, int64_t n) {
  const uint64_t* const powers = powers_of_two;
  for (int64_t i = 0; i < n; ++i) x[i] = exp_of_library(x[i], powers);
}

}  // namespace accrue
