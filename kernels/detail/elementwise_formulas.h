#pragma once

// The formulas of elementwise ops: a line each, from which the functions of kernels/elementwise.h
// and the kernels for all devices are made. A new formula is a line here and a row in
// tests/kernels/elementwise.cpp.
//
// UNARY(name, ONNX's operator, scalars, y, reads, da)
// BINARY(name, ONNX's operator, y, reads, da, reads, db)
// TERNARY(name, ONNX's operator, y, reads, da, reads, db, reads, dc)
//
// An empty name of ONNX's operator: there is none. a, b and c are the operands, of type T, and y is
// the result. da is the gradient of a, of the gradient d of y, and `reads` says which values it is
// computed from, which the op keeps. A formula that says too few does not compile, and one that
// says too many gives a warning. PASS: d itself. NONE: of d alone. NO: there is no gradient.
// Scalars have a name and a default: S1(alpha, 1). Ties and NaN are PyTorch's. Functions ending in
// _of are in kernels/detail/elementwise_functions.h, vector_math.h and wide_math.h.

// The functions of the first two are in kernels/arithmetic.h.
// clang-format off
#define ACCRUE_ARITHMETIC_FORMULAS(BINARY) \
  BINARY(add, "Add", a + b, PASS, d, PASS, d) \
  BINARY(mul, "Mul", a * b, B, d * b, A, d * a)

#define ACCRUE_NAMED_FORMULAS(UNARY, BINARY, TERNARY) \
  UNARY(exp, "Exp", S0, exp_of(a), Y, d * y) \
  UNARY(log, "Log", S0, log_of(a), A, d / a) \
  UNARY(log1p, "", S0, log1p_of(a), A, d / (1 + a)) \
  UNARY(expm1, "", S0, expm1_of(a), Y, d * (y + 1)) \
  UNARY(sqrt, "Sqrt", S0, std::sqrt(a), Y, d / (2 * y)) \
  UNARY(rsqrt, "", S0, 1 / std::sqrt(a), Y, d * T(-0.5) * y * y * y) \
  UNARY(reciprocal, "Reciprocal", S0, 1 / a, Y, -d * y * y) \
  UNARY(square, "", S0, a * a, A, d * (2 * a)) \
  UNARY(abs, "Abs", S0, std::abs(a), A, d * sign_of(a)) \
  UNARY(neg, "Neg", S0, -a, NONE, -d) \
  UNARY(sign, "Sign", S0, sign_of(a), NONE, T(0)) \
  UNARY(floor, "Floor", S0, std::floor(a), NONE, T(0)) \
  UNARY(ceil, "Ceil", S0, std::ceil(a), NONE, T(0)) \
  UNARY(round, "Round", S0, std::rint(a), NONE, T(0)) \
  UNARY(erf, "Erf", S0, erf_of(a), A, d * (T(1.1283791670955126) * exp_of(-a * a))) \
  UNARY(sin, "Sin", S0, sin_of(a), A, d * cos_of(a)) \
  UNARY(cos, "Cos", S0, cos_of(a), A, -d * sin_of(a)) \
  UNARY(tan, "Tan", S0, tan_of(a), Y, d * (1 + y * y)) \
  UNARY(asin, "Asin", S0, asin_of(a), A, d / std::sqrt(1 - a * a)) \
  UNARY(acos, "Acos", S0, acos_of(a), A, -d / std::sqrt(1 - a * a)) \
  UNARY(atan, "Atan", S0, atan_of(a), A, d / (1 + a * a)) \
  UNARY(sinh, "Sinh", S0, sinh_of(a), A, d * cosh_of(a)) \
  UNARY(cosh, "Cosh", S0, cosh_of(a), A, d * sinh_of(a)) \
  UNARY(asinh, "Asinh", S0, asinh_of(a), A, d / std::sqrt(a * a + 1)) \
  UNARY(acosh, "Acosh", S0, acosh_of(a), A, d / std::sqrt(a * a - 1)) \
  UNARY(atanh, "Atanh", S0, atanh_of(a), A, d / (1 - a * a)) \
  UNARY(softplus, "Softplus", S2(beta, 1, threshold, 20), softplus_of(a, beta, threshold), \
        A, d * softplus_slope_of(a, beta, threshold)) \
  UNARY(hard_sigmoid, "HardSigmoid", S2(alpha, 1.0 / 6, beta, 0.5), \
        clamp_of(alpha * a + beta, T(0), T(1)), \
        A, a > -beta / alpha && a < (1 - beta) / alpha ? d * alpha : T(0)) \
  UNARY(hard_swish, "HardSwish", S0, a * clamp_of(a + 3, T(0), T(6)) / 6, \
        A, a <= -3 ? T(0) : a < 3 ? d * (a / 3 + T(0.5)) : d) \
  UNARY(elu, "Elu", S1(alpha, 1), a > 0 ? a : alpha * expm1_of(a), \
        A, a <= 0 ? d * (alpha * exp_of(a)) : d) \
  UNARY(celu, "Celu", S1(alpha, 1), a > 0 ? a : alpha * expm1_of(a / alpha), \
        A, a <= 0 ? d * exp_of(a / alpha) : d) \
  UNARY(selu, "Selu", S0, a > 0 ? T(selu_scale) * a : T(selu_scale * selu_alpha) * expm1_of(a), \
        A, a <= 0 ? d * (T(selu_scale * selu_alpha) * exp_of(a)) : d * T(selu_scale)) \
  UNARY(mish, "Mish", S0, mish_of(a), A, d * mish_slope_of(a)) \
  UNARY(softsign, "Softsign", S0, a / (1 + std::abs(a)), \
        A, d / ((1 + std::abs(a)) * (1 + std::abs(a)))) \
  UNARY(log_sigmoid, "", S0, -softplus_of(-a), A, d * formula::Sigmoid{}(-a)) \
  UNARY(clamp, "Clip", S2(low, -HUGE_VAL, high, HUGE_VAL), clamp_of(a, low, high), \
        A, a > low && a < high ? d : T(0)) \
  UNARY(threshold, "", S2(least, 0, value, 0), a <= least ? value : a, A, a <= least ? T(0) : d) \
  UNARY(shrink, "Shrink", S2(lambd, 0.5, bias, 0), \
        a > lambd ? a - bias : a < -lambd ? a + bias : a * 0, \
        A, a > lambd || a < -lambd ? d : T(0)) \
  UNARY(pow_scalar, "Pow", S1(exponent, 2), pow_of(a, exponent), \
        A, exponent == 0 ? T(0) : d * (exponent * pow_of(a, exponent - 1))) \
  UNARY(add_scalar, "Add", S1(addend, 0), a + addend, PASS, d) \
  UNARY(rsub, "", S1(minuend, 0), minuend - a, NONE, -d) \
  UNARY(div_scalar, "Div", S1(divisor, 1), a / divisor, NONE, d / divisor) \
  UNARY(rdiv, "", S1(dividend, 1), dividend / a, A, -d * (dividend / a) / a) \
  UNARY(is_nan, "IsNaN", S0, T(a != a), NO, T(0)) \
  UNARY(logical_not, "Not", S0, T(a == 0), NO, T(0)) \
  BINARY(sub, "Sub", a - b, PASS, d, NONE, -d) \
  BINARY(div, "Div", a / b, B, d / b, AB, -d * (a / b) / b) \
  BINARY(pow, "Pow", pow_of(a, b), AB, b == 0 ? T(0) : d * (b * pow_of(a, b - 1)), \
         ABY, a == 0 && b >= 0 ? T(0) : d * (y * log_of(a))) \
  BINARY(remainder, "", remainder_of(a, b), PASS, d, AB, -d * floor_quotient_of(a, b)) \
  BINARY(floor_divide, "", floor_quotient_of(a, b), NO, T(0), NO, T(0)) \
  BINARY(atan2, "", std::atan2(a, b), AB, a == 0 && b == 0 ? T(0) : d * b / (a * a + b * b), \
         AB, a == 0 && b == 0 ? T(0) : -d * a / (a * a + b * b)) \
  BINARY(minimum, "Min", a < b || a != a ? a : b, AB, a == b ? d / 2 : a > b ? T(0) : d, \
         AB, a == b ? d / 2 : a < b ? T(0) : d) \
  BINARY(maximum, "Max", a > b || a != a ? a : b, AB, a == b ? d / 2 : a < b ? T(0) : d, \
         AB, a == b ? d / 2 : a > b ? T(0) : d) \
  BINARY(equal, "Equal", T(a == b), NO, T(0), NO, T(0)) \
  BINARY(not_equal, "", T(a != b), NO, T(0), NO, T(0)) \
  BINARY(less, "Less", T(a < b), NO, T(0), NO, T(0)) \
  BINARY(less_equal, "LessOrEqual", T(a <= b), NO, T(0), NO, T(0)) \
  BINARY(greater, "Greater", T(a > b), NO, T(0), NO, T(0)) \
  BINARY(greater_equal, "GreaterOrEqual", T(a >= b), NO, T(0), NO, T(0)) \
  BINARY(logical_and, "And", T(a != 0 && b != 0), NO, T(0), NO, T(0)) \
  BINARY(logical_or, "Or", T(a != 0 || b != 0), NO, T(0), NO, T(0)) \
  BINARY(logical_xor, "Xor", T((a != 0) != (b != 0)), NO, T(0), NO, T(0)) \
  TERNARY(where, "Where", a != 0 ? b : c, NO, T(0), A, a != 0 ? d : T(0), A, a != 0 ? T(0) : d)
// clang-format on

#define ACCRUE_FORMULAS(UNARY, BINARY, TERNARY) \
  ACCRUE_ARITHMETIC_FORMULAS(BINARY)            \
  ACCRUE_NAMED_FORMULAS(UNARY, BINARY, TERNARY)

// The scalars of a formula, as a function declares, passes and describes them.
#define ACCRUE_DEFAULTS_S0
#define ACCRUE_DEFAULTS_S1(s, s_default) , double s = s_default
#define ACCRUE_DEFAULTS_S2(s, s_default, t, t_default) , double s = s_default, double t = t_default
#define ACCRUE_SCALARS_S0
#define ACCRUE_SCALARS_S1(s, s_default) s
#define ACCRUE_SCALARS_S2(s, s_default, t, t_default) s, t
#define ACCRUE_SCALAR_INFOS_S0
#define ACCRUE_SCALAR_INFOS_S1(s, s_default) \
  { #s, s_default }
#define ACCRUE_SCALAR_INFOS_S2(s, s_default, t, t_default) \
  {#s, s_default}, { #t, t_default }
