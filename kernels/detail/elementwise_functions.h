#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/detail/elementwise_formulas.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

// Makes a type for each formula of the list, for both devices.
namespace accrue::detail::formula_list {

constexpr double selu_alpha = 1.6732632423543772, selu_scale = 1.0507009873554805;

// exp(x) for every x, of operations that the compiler makes vectors of. In float within 2 units of
// the last place, by the polynomial of vector_exp(); 2^n is two factors, because n may be beyond
// the exponents of float where the result is denormal or just below infinity.
[[gnu::always_inline]] HOST_DEVICE inline float exp_of(float x) {
  constexpr float rounder = 0x1.8p23f, log2_e = 1.44269504f;
  const float near = x < -105 ? -105 : x > 89 ? 89 : x;
  const float shifted = near * log2_e + rounder, n = shifted - rounder;
  const float r = (near - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float exp_r = p * r * r + r + 1;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(rounder);
  const int32_t half = exponent >> 1;
  const auto power = [](int32_t e) {
    return std::bit_cast<float>((static_cast<uint32_t>(e) + 127u) << 23);
  };
  return exp_r * power(half) * power(exponent - half);
}
HOST_DEVICE inline double exp_of(double x) { return std::exp(x); }

// -1, 0 or 1; 0 of NaN.
template <class T>
HOST_DEVICE T sign_of(T x) {
  return T(x > 0) - T(x < 0);
}

// A NaN stays one; `high` where low is more.
template <class T>
HOST_DEVICE T clamp_of(T x, T low, T high) {
  const T above = x < low ? low : x;
  return above > high ? high : above;
}

// log(1 + exp(x))
template <class T>
HOST_DEVICE T softplus_of(T x) {
  const T more = std::log1p(exp_of(x > 0 ? -x : x));
  return x > 0 ? x + more : more;
}

// PyTorch's, which is x itself where beta * x is more than the threshold.
template <class T>
HOST_DEVICE T softplus_of(T x, T beta, T threshold) {
  return x * beta > threshold ? x : softplus_of(x * beta) / beta;
}
template <class T>
HOST_DEVICE T softplus_slope_of(T x, T beta, T threshold) {
  return x * beta > threshold ? T(1) : formula::Sigmoid{}(x * beta);
}

template <class T>
HOST_DEVICE T mish_slope_of(T x) {
  const T t = std::tanh(softplus_of(x));
  return t + x * (1 - t * t) * formula::Sigmoid{}(x);
}

// The numbers that a formula is computed from: the gradient of its result, the operands, the
// result, the scalars.
template <class T>
struct Point {
  T d, a, b, c, y;
  T scalars[2];
};

// The values that a gradient is computed from, as bits, or what it is otherwise.
enum Reads : unsigned {
  reads_a = 1,
  reads_b = 2,
  reads_c = 4,
  reads_y = 8,
  is_passed_on = 16,
  has_no_gradient = 32
};

#define ACCRUE_READS_NO has_no_gradient
#define ACCRUE_READS_PASS is_passed_on
#define ACCRUE_READS_NONE 0
#define ACCRUE_READS_A reads_a
#define ACCRUE_READS_B reads_b
#define ACCRUE_READS_Y reads_y
#define ACCRUE_READS_AB reads_a | reads_b
#define ACCRUE_READS_ABY reads_a | reads_b | reads_y

#define ACCRUE_READ_PARAMETERS_NO
#define ACCRUE_READ_PARAMETERS_PASS
#define ACCRUE_READ_PARAMETERS_NONE
#define ACCRUE_READ_PARAMETERS_A , T a
#define ACCRUE_READ_PARAMETERS_B , T b
#define ACCRUE_READ_PARAMETERS_Y , T y
#define ACCRUE_READ_PARAMETERS_AB , T a, T b
#define ACCRUE_READ_PARAMETERS_ABY , T a, T b, T y

#define ACCRUE_READ_ARGUMENTS_NO
#define ACCRUE_READ_ARGUMENTS_PASS
#define ACCRUE_READ_ARGUMENTS_NONE
#define ACCRUE_READ_ARGUMENTS_A , p.a
#define ACCRUE_READ_ARGUMENTS_B , p.b
#define ACCRUE_READ_ARGUMENTS_Y , p.y
#define ACCRUE_READ_ARGUMENTS_AB , p.a, p.b
#define ACCRUE_READ_ARGUMENTS_ABY , p.a, p.b, p.y

#define ACCRUE_SCALAR_PARAMETERS_S0
#define ACCRUE_SCALAR_PARAMETERS_S1(s, s_default) , [[maybe_unused]] T s
#define ACCRUE_SCALAR_PARAMETERS_S2(s, s_default, t, t_default) \
  , [[maybe_unused]] T s, [[maybe_unused]] T t

#define ACCRUE_SCALAR_ARGUMENTS_S0
#define ACCRUE_SCALAR_ARGUMENTS_S1(s, s_default) , p.scalars[0]
#define ACCRUE_SCALAR_ARGUMENTS_S2(s, s_default, t, t_default) , p.scalars[0], p.scalars[1]

// The gradient of one operand, a function of the values that it reads and of no other.
#define ACCRUE_GRADIENT(operand, scalars, reads_, expression)                                    \
  template <class T>                                                                             \
  HOST_DEVICE static T gradient_##operand(                                                       \
      [[maybe_unused]] T d ACCRUE_READ_PARAMETERS_##reads_ ACCRUE_SCALAR_PARAMETERS_##scalars) { \
    return expression;                                                                           \
  }                                                                                              \
  template <class T>                                                                             \
  HOST_DEVICE static T gradient_at(std::integral_constant<int, operand>, const Point<T>& p) {    \
    return gradient_##operand<T>(                                                                \
        p.d ACCRUE_READ_ARGUMENTS_##reads_ ACCRUE_SCALAR_ARGUMENTS_##scalars);                   \
  }

#define ACCRUE_UNARY_TYPE(name, onnx, scalars, value, a_reads, da)          \
  struct name {                                                             \
    static constexpr int operands = 1;                                      \
    static constexpr unsigned reads[3] = {ACCRUE_READS_##a_reads};          \
    template <class T>                                                      \
    HOST_DEVICE static T value_of(T a ACCRUE_SCALAR_PARAMETERS_##scalars) { \
      return value;                                                         \
    }                                                                       \
    template <class T>                                                      \
    HOST_DEVICE static T value_at(const Point<T>& p) {                      \
      return value_of<T>(p.a ACCRUE_SCALAR_ARGUMENTS_##scalars);            \
    }                                                                       \
    ACCRUE_GRADIENT(0, scalars, a_reads, da)                                \
  };

#define ACCRUE_BINARY_TYPE(name, onnx, value, a_reads, da, b_reads, db)                    \
  struct name {                                                                            \
    static constexpr int operands = 2;                                                     \
    static constexpr unsigned reads[3] = {ACCRUE_READS_##a_reads, ACCRUE_READS_##b_reads}; \
    template <class T>                                                                     \
    HOST_DEVICE static T value_at(const Point<T>& p) {                                     \
      const T a = p.a, b = p.b;                                                            \
      return value;                                                                        \
    }                                                                                      \
    ACCRUE_GRADIENT(0, S0, a_reads, da)                                                    \
    ACCRUE_GRADIENT(1, S0, b_reads, db)                                                    \
  };

#define ACCRUE_TERNARY_TYPE(name, onnx, value, a_reads, da, b_reads, db, c_reads, dc)     \
  struct name {                                                                           \
    static constexpr int operands = 3;                                                    \
    static constexpr unsigned reads[3] = {ACCRUE_READS_##a_reads, ACCRUE_READS_##b_reads, \
                                          ACCRUE_READS_##c_reads};                        \
    template <class T>                                                                    \
    HOST_DEVICE static T value_at(const Point<T>& p) {                                    \
      const T a = p.a, b = p.b, c = p.c;                                                  \
      return value;                                                                       \
    }                                                                                     \
    ACCRUE_GRADIENT(0, S0, a_reads, da)                                                   \
    ACCRUE_GRADIENT(1, S0, b_reads, db)                                                   \
    ACCRUE_GRADIENT(2, S0, c_reads, dc)                                                   \
  };

ACCRUE_FORMULAS(ACCRUE_UNARY_TYPE, ACCRUE_BINARY_TYPE, ACCRUE_TERNARY_TYPE)

#undef ACCRUE_UNARY_TYPE
#undef ACCRUE_BINARY_TYPE
#undef ACCRUE_TERNARY_TYPE
#undef ACCRUE_GRADIENT

}  // namespace accrue::detail::formula_list
