#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/detail/vector_sin_cos.h"

namespace accrue::cuda {

// The sine, cosine and tangent of any x: of a float to the nearest, of a double within 3 units of
// the last place, or 5 for the tangent. CUDA's own functions keep an array in each thread's stack,
// for the sake of arguments that are large.

// A number of quarters of a turn, as an integer modulo 4 and an angle of at most half a quarter.
struct Angle {
  uint64_t quarter;
  double rest;
};

__device__ inline uint64_t high_product(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// The angle of a finite x >= 1/2, by the method of Payne and Hanek: x = m * 2^e with an integer m
// of 53 bits, and of 2 / pi only the 192 bits are multiplied that matter modulo 4.
__device__ inline Angle exact_angle(double x) {
  // 2 / pi, after 64 zeros.
  static constexpr uint64_t two_over_pi[] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
      0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
      0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
      0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
      0xf0cfbc209af4361d};
  const auto bits = std::bit_cast<uint64_t>(x);
  const int first = 62 - 1075 + static_cast<int>(bits >> 52);  // of the bits that matter
  const uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const uint64_t* const from = two_over_pi + first / 64;
  const int shift = first % 64;
  const auto word = [&](int i) {
    return shift == 0 ? from[i] : from[i] << shift | from[i + 1] >> (64 - shift);
  };
  const uint64_t middle = m * word(1), low = middle + high_product(m, word(2));
  const uint64_t high = m * word(0) + high_product(m, word(1)) + (low < middle ? 1 : 0);
  // Two bits are quarters; the fraction counts from the nearest one.
  const uint64_t fraction = high << 2 | low >> 62;
  const double rest =
      double(static_cast<int64_t>(fraction)) * 0x1p-64 + double(low << 2) * 0x1p-128;
  return {(high >> 62) + (fraction >> 63), rest * 1.57079632679489661923};
}

template <class W>
__device__ SinCos sin_cos_of(W x) {
  // Up to here vector_sin_cos() is exact enough for any x of the type.
  constexpr double small = sizeof(W) == 4 ? 0x1p17 : 0.75;
  const double size = std::abs(double(x));
  SinCos y;
  if (size <= small) {
    y = vector_sin_cos(size);
  } else if (size <= std::numeric_limits<double>::max()) {
    const Angle angle = exact_angle(size);
    y = sin_cos_of_quarters(angle.quarter, angle.rest);
  } else {
    y.sin = y.cos = size - size;  // NaN
  }
  return {std::signbit(x) ? -y.sin : y.sin, y.cos};
}

template <class W>
__device__ W sin_of(W x) {
  return static_cast<W>(sin_cos_of(x).sin);
}
template <class W>
__device__ W cos_of(W x) {
  return static_cast<W>(sin_cos_of(x).cos);
}
template <class W>
__device__ W tan_of(W x) {
  const SinCos y = sin_cos_of(x);
  return static_cast<W>(y.sin / y.cos);
}

}  // namespace accrue::cuda
