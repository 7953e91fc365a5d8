#pragma once

#include <array>
#include <cmath>
#include <type_traits>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/detail/elementwise_formulas.h"
#include "kernels/detail/vector_math.h"
#include "kernels/detail/wide_math.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

// Makes a type for each formula of the list, for both devices.
namespace accrue::detail::formula_list {

constexpr double selu_alpha = 1.6732632423543772, selu_scale = 1.0507009873554805;

// -1, 0 or 1; 0 of NaN.
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T sign_of(T x) {
  return T(x > 0) - T(x < 0);
}

// A NaN stays one; `high` where low is more.
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T clamp_of(T x, T low, T high) {
  const T above = x < low ? low : x;
  return above > high ? high : above;
}

// log(1 + exp(x))
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T softplus_of(T x) {
  return (x > 0 ? x : T(0)) + log1p_of(exp_of(-std::abs(x)));
}

// PyTorch's, which is x itself where beta * x is more than the threshold.
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T softplus_of(T x, T beta, T threshold) {
  const T y = softplus_of(x * beta) / beta;
  return x * beta > threshold ? x : y;
}
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T softplus_slope_of(T x, T beta, T threshold) {
  const T slope = formula::Sigmoid{}(x * beta);
  return x * beta > threshold ? T(1) : slope;
}

// x * tanh(softplus(x)), where the hyperbolic tangent is n / (n + 2) with n = e (e + 2), e =
// exp(x), and is 1 far from zero.
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T mish_of(T x) {
  const T e = exp_of(x > 22 ? T(22) : x), n = e * (e + 2);
  return x > 22 ? x : x * (n / (n + 2));
}
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T mish_slope_of(T x) {
  const T e = exp_of(x > 22 ? T(22) : x), n = e * (e + 2), t = n / (n + 2);
  const T slope = t + x * (4 * (n + 1) / ((n + 2) * (n + 2))) * formula::Sigmoid{}(x);
  return x > 22 ? T(1) : slope;
}

// a - b * floor(a / b), with b's sign, and floor(a / b), both of the exact quotient, as in PyTorch.
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T remainder_of(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
template <class T>
[[gnu::always_inline]] HOST_DEVICE inline T floor_quotient_of(T a, T b) {
  const T rest = std::fmod(a, b), truncated = (a - rest) / b;  // but for rounding
  const T near = rest != 0 && (b < 0) != (rest < 0) ? truncated - 1 : truncated;
  const T below = std::floor(near), nearest = near - below > T(0.5) ? below + 1 : below;
  return b == 0 ? a / b : near == 0 ? std::copysign(T(0), a / b) : nearest;
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
  [[gnu::always_inline]] HOST_DEVICE static T gradient_##operand(                                \
      [[maybe_unused]] T d ACCRUE_READ_PARAMETERS_##reads_ ACCRUE_SCALAR_PARAMETERS_##scalars) { \
    return expression;                                                                           \
  }                                                                                              \
  template <class T>                                                                             \
  [[gnu::always_inline]] HOST_DEVICE static T gradient_at(std::integral_constant<int, operand>,  \
                                                          const Point<T>& p) {                   \
    return gradient_##operand<T>(                                                                \
        p.d ACCRUE_READ_ARGUMENTS_##reads_ ACCRUE_SCALAR_ARGUMENTS_##scalars);                   \
  }

#define ACCRUE_UNARY_TYPE(name, onnx, scalars, value, a_reads, da)                                 \
  struct name {                                                                                    \
    static constexpr int operands = 1;                                                             \
    static constexpr unsigned reads[3] = {ACCRUE_READS_##a_reads};                                 \
    template <class T>                                                                             \
    [[gnu::always_inline]] HOST_DEVICE static T value_of(T a ACCRUE_SCALAR_PARAMETERS_##scalars) { \
      return value;                                                                                \
    }                                                                                              \
    template <class T>                                                                             \
    [[gnu::always_inline]] HOST_DEVICE static T value_at(const Point<T>& p) {                      \
      return value_of<T>(p.a ACCRUE_SCALAR_ARGUMENTS_##scalars);                                   \
    }                                                                                              \
    ACCRUE_GRADIENT(0, scalars, a_reads, da)                                                       \
  };

#define ACCRUE_BINARY_TYPE(name, onnx, value, a_reads, da, b_reads, db)                    \
  struct name {                                                                            \
    static constexpr int operands = 2;                                                     \
    static constexpr unsigned reads[3] = {ACCRUE_READS_##a_reads, ACCRUE_READS_##b_reads}; \
    template <class T>                                                                     \
    [[gnu::always_inline]] HOST_DEVICE static T value_at(const Point<T>& p) {              \
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
    [[gnu::always_inline]] HOST_DEVICE static T value_at(const Point<T>& p) {             \
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
