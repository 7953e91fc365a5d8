// The 16-bit types, over all their values.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>

#include "runner.h"

namespace {

struct Half {
  static float widen(unsigned short bits) { return __half2float(__ushort_as_half(bits)); }
  static unsigned short narrow(float value) { return __half_as_ushort(__float2half(value)); }
  static constexpr int mantissa = 10, exponents = 31, bias = 15;
};

struct Bfloat16 {
  static float widen(unsigned short bits) { return __bfloat162float(__ushort_as_bfloat16(bits)); }
  static unsigned short narrow(float value) {
    return __bfloat16_as_ushort(__float2bfloat16(value));
  }
  static constexpr int mantissa = 7, exponents = 255, bias = 127;
};

// The value of a bit pattern, from the definition of the format.
template <class Format>
double meaning(unsigned bits) {
  const int exponent = bits >> Format::mantissa & Format::exponents;
  const int fraction = bits & ((1 << Format::mantissa) - 1), one = 1 << Format::mantissa;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == Format::exponents) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - Format::bias - Format::mantissa);
  return sign * std::ldexp(one + fraction, exponent - Format::bias - Format::mantissa);
}

}  // namespace

TEMPLATE_TEST_CASE("Every 16-bit pattern widens to its value and comes back", "[simt]", Half,
                   Bfloat16) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float wide = TestType::widen(bits);
    const double expected = meaning<TestType>(bits);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(wide));
      REQUIRE(TestType::narrow(wide) == 0x7fff);
    } else {
      REQUIRE(wide == expected);
      REQUIRE(TestType::narrow(wide) == bits);  // also -0
    }
  }
}

TEMPLATE_TEST_CASE("Floats between two patterns go to the nearer, ties to the even one", "[simt]",
                   Half, Bfloat16) {
  const unsigned largest = (TestType::exponents << TestType::mantissa) - 1;
  for (const unsigned sign : {0u, 0x8000u}) {
    for (unsigned bits = 0; bits <= largest; ++bits) {
      const unsigned low = sign | bits, high = low + 1;
      // Above the largest finite number infinity takes the place of the next number at the same
      // distance.
      const double below = meaning<TestType>(low);
      const double above =
          bits < largest ? meaning<TestType>(high) : 2 * below - meaning<TestType>(low - 1);
      const float middle = (below + above) / 2;  // exact: one bit more than the format
      REQUIRE(double(middle) == (below + above) / 2);
      REQUIRE(TestType::narrow(middle) == (low % 2 == 0 ? low : high));
      REQUIRE(TestType::narrow(std::nextafterf(middle, below)) == low);
      REQUIRE(TestType::narrow(std::nextafterf(middle, sign ? -INFINITY : INFINITY)) == high);
    }
  }
}

TEST_CASE("The raw types hold the pattern", "[simt]") {
  const __half_raw half{0x3e00};
  const __nv_bfloat16_raw bfloat16{0x3fc0};
  CHECK(__half2float(half) == 1.5f);
  CHECK(__bfloat162float(bfloat16) == 1.5f);
  CHECK(__half_raw(__float2half(1.5f)).x == half.x);
  CHECK(__nv_bfloat16_raw(__float2bfloat16(1.5f)).x == bfloat16.x);
}

TEST_CASE("Extreme floats narrow to infinity and zero", "[simt]") {
  CHECK(Half::narrow(1e30f) == 0x7c00);
  CHECK(Half::narrow(-INFINITY) == 0xfc00);
  CHECK(Half::narrow(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(Bfloat16::narrow(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(Bfloat16::narrow(-std::numeric_limits<float>::denorm_min()) == 0x8000);
}
