// ONNX's operators that take their operands element by element.

#include <cmath>
#include <limits>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// An op of one operand that has ONNX's formula.
#define ACCRUE_ONNX_UNARY(onnx, op)                                                       \
  {                                                                                       \
    onnx, {                                                                               \
      [](OnnxConversion& c) -> Values { return {c.call(op, {number_operand(c, c[0])})}; } \
    }                                                                                     \
  }

OnnxValue attributed(OnnxConversion& c, std::string_view op, const Graph::Attributes& attributes) {
  return c.call(op, {number_operand(c, c[0])}, attributes);
}

double attribute(OnnxConversion& c, const std::string& name, double by_default) {
  return meant_by(c.number(name, by_default));
}

Values leaky_relu_of(OnnxConversion& c) {
  return {attributed(c, "leaky_relu", {{"negative_slope", attribute(c, "alpha", 0.01)}})};
}
Values elu_of(OnnxConversion& c) {
  return {attributed(c, "elu", {{"alpha", attribute(c, "alpha", 1)}})};
}
Values celu_of(OnnxConversion& c) {
  return {attributed(c, "celu", {{"alpha", attribute(c, "alpha", 1)}})};
}
Values hard_sigmoid_of(OnnxConversion& c) {
  return {attributed(c, "hard_sigmoid",
                     {{"alpha", attribute(c, "alpha", 0.2)}, {"beta", attribute(c, "beta", 0.5)}})};
}
Values shrink_of(OnnxConversion& c) {
  return {attributed(c, "shrink",
                     {{"lambd", attribute(c, "lambd", 0.5)}, {"bias", attribute(c, "bias", 0)}})};
}
Values thresholded_relu_of(OnnxConversion& c) {
  return {attributed(c, "threshold", {{"least", attribute(c, "alpha", 1)}, {"value", 0.0}})};
}
// PyTorch's softplus is x above a threshold, ONNX's nowhere.
Values softplus_of(OnnxConversion& c) {
  return {attributed(c, "softplus", {{"threshold", std::numeric_limits<double>::max()}})};
}

// gamma * elu(x, alpha)
Values selu_of(OnnxConversion& c) {
  constexpr double alpha = 1.6732632423543772, gamma = 1.0507009873554805;
  const double given_alpha = c.number("alpha", alpha), given_gamma = c.number("gamma", gamma);
  const bool is_usual =
      std::abs(given_alpha - alpha) < 1e-6 && std::abs(given_gamma - gamma) < 1e-6;
  if (is_usual) return {attributed(c, "selu", {})};
  return {
      times(c, attributed(c, "elu", {{"alpha", meant_by(given_alpha)}}), meant_by(given_gamma))};
}

Values gelu_of(OnnxConversion& c) {
  return {attributed(c, "gelu", {{"approximate", c.text("approximate", "none")}})};
}

// slope is broadcast to x, and by the samples or the same for all.
Values prelu_of(OnnxConversion& c) {
  const OnnxValue& x = c[0];
  c.check(c[1].rank() <= x.rank(), "its slope is {} for {}: expected at most as many dimensions",
          to_string(c[1].sizes), to_string(x.sizes));
  const OnnxValue is_above = c.call("greater", {x, c.constant(0)});
  return {c.call("where", {is_above, x, c.call("mul", {x, c[1]})})};
}

// Arithmetic. Operands that are numbers become scalars of the op, where it has one.

bool adds_no_dimension(const OnnxValue& number, const OnnxValue& x) {
  return number.rank() <= x.rank();
}

// The number beside x, if operand i is one.
std::optional<double> scalar(const OnnxConversion& c, size_t i) {
  const OnnxValue &number = c[i], &x = c[1 - i];
  if (x.is_constant() || !adds_no_dimension(number, x)) return {};
  return only_number(number);
}

// Integers of data are indices, such as tokens; as numbers they may be 0 and 1, as in masks.
OnnxValue operand(OnnxConversion& c, size_t i) { return number_operand(c, c.for_each_sample(i)); }

Values typed_as_first(OnnxConversion& c, const OnnxValue& y) { return {like_first(c, y)}; }

Values add_of(OnnxConversion& c) {
  if (const auto number = scalar(c, 1)) return typed_as_first(c, sum_of(c, operand(c, 0), *number));
  if (const auto number = scalar(c, 0)) return typed_as_first(c, sum_of(c, operand(c, 1), *number));
  return typed_as_first(c, c.call("add", {operand(c, 0), operand(c, 1)}));
}
Values sub_of(OnnxConversion& c) {
  if (const auto number = scalar(c, 1))
    return typed_as_first(c, sum_of(c, operand(c, 0), -*number));
  if (const auto number = scalar(c, 0))
    return typed_as_first(c, c.call("rsub", {operand(c, 1)}, {{"minuend", *number}}));
  return typed_as_first(c, c.call("sub", {operand(c, 0), operand(c, 1)}));
}
Values mul_of(OnnxConversion& c) {
  if (const auto number = scalar(c, 1)) return typed_as_first(c, times(c, operand(c, 0), *number));
  if (const auto number = scalar(c, 0)) return typed_as_first(c, times(c, operand(c, 1), *number));
  return typed_as_first(c, c.call("mul", {operand(c, 0), operand(c, 1)}));
}

void refuse_integers(const OnnxConversion& c, const char* action) {
  c.check(is_floating(c[0].type),
          "it {} integers that depend on the data ({}): expected a cast to "
          "floating numbers before it",
          action, to_string(c[0].type));
}

Values div_of(OnnxConversion& c) {
  refuse_integers(c, "divides");
  if (const auto number = scalar(c, 1))
    return {c.call("div_scalar", {c[0]}, {{"divisor", *number}})};
  if (const auto number = scalar(c, 0)) return {c.call("rdiv", {c[1]}, {{"dividend", *number}})};
  return {c.call("div", {c.for_each_sample(0), c.for_each_sample(1)})};
}

Values pow_of(OnnxConversion& c) {
  refuse_integers(c, "raises");
  const auto exponent = scalar(c, 1);
  if (!exponent) return {c.call("pow", {c[0], operand(c, 1)})};
  if (*exponent == 1) return {c[0]};
  if (*exponent == 2) return {c.call("square", {c[0]})};
  if (*exponent == 0.5) return {c.call("sqrt", {c[0]})};
  if (*exponent == -0.5) return {c.call("rsqrt", {c[0]})};
  if (*exponent == -1) return {c.call("reciprocal", {c[0]})};
  return {c.call("pow_scalar", {c[0]}, {{"exponent", *exponent}})};
}

// C's fmod, whose sign is the dividend's: sign(a) * (|a| modulo |b|).
Values mod_of(OnnxConversion& c) {
  refuse_integers(c, "takes the rest of");
  c.check(c.integer("fmod", 0) == 1, "fmod is 0 for floating numbers: expected 1");
  const OnnxValue rest =
      c.call("remainder", {c.call("abs", {operand(c, 0)}), c.call("abs", {operand(c, 1)})});
  return {c.call("mul", {c.call("sign", {operand(c, 0)}), rest})};
}

Values sum_of_all(OnnxConversion& c) { return typed_as_first(c, folded(c, "add")); }
Values max_of(OnnxConversion& c) { return typed_as_first(c, folded(c, "maximum")); }
Values min_of(OnnxConversion& c) { return typed_as_first(c, folded(c, "minimum")); }
Values mean_of(OnnxConversion& c) {
  const auto n = double(c.inputs());
  const OnnxValue y = folded(c, "add");
  return {n == 1 ? y : c.call("div_scalar", {y}, {{"divisor", n}})};
}

// A bound of Clip: an attribute before opset 11, since then an input.
Values clip_of(OnnxConversion& c) {
  OnnxValue y = operand(c, 0);
  Graph::Attributes bounds;
  const auto bound = [&](const std::string& attribute, size_t i, const char* name, const char* op) {
    if (c.opset() < 11) {
      if (c.has(attribute)) bounds.emplace_back(name, meant_by(c.number(attribute, 0)));
    } else if (c.has(i)) {
      if (const auto number = only_number(c[i])) bounds.emplace_back(name, *number);
      else y = c.call(op, {y, number_operand(c, c[i])});
    }
  };
  bound("min", 1, "min", "maximum");
  bound("max", 2, "max", "minimum");
  return typed_as_first(c, bounds.empty() ? y : c.call("clamp", {y}, bounds));
}

// Comparisons. Integers of data are compared with 0 and 1 alone.

OnnxValue compared_operand(OnnxConversion& c, size_t i) {
  const OnnxValue &value = c[i], &other = c[1 - i];
  const bool are_free = other.is_whole() && !other.is_constant() &&
                        other.type != OnnxType::boolean && other.type != OnnxType::u8;
  if (value.is_constant() && are_free)
    for (size_t k = 0; k < 2; ++k)
      for (const double number : value.constant->numbers(k))
        c.check(number == 0 || number == 1,
                "it compares integers of the data with {}: expected 0 or 1, as in masks; give "
                "what follows from the data as an input of its own",
                number);
  return number_operand(c, value);
}

template <const char* const& op>
Values compared(OnnxConversion& c) {
  const OnnxValue a = compared_operand(c, 0), b = compared_operand(c, 1);
  return {OnnxConversion::typed(c.call(op, {a, b}), OnnxType::boolean)};
}
template <const char* const& op>
Values logical(OnnxConversion& c) {
  const OnnxValue y = c.call(op, {operand(c, 0), operand(c, 1)});
  return {OnnxConversion::typed(y, OnnxType::boolean)};
}
constexpr const char *equal = "equal", *greater = "greater", *less = "less",
                     *greater_equal = "greater_equal", *less_equal = "less_equal",
                     *logical_and = "logical_and", *logical_or = "logical_or",
                     *logical_xor = "logical_xor";

Values not_of(OnnxConversion& c) {
  return {OnnxConversion::typed(c.call("logical_not", {operand(c, 0)}), OnnxType::boolean)};
}
Values is_nan_of(OnnxConversion& c) {
  return {OnnxConversion::typed(c.call("is_nan", {operand(c, 0)}), OnnxType::boolean)};
}
Values is_inf_of(OnnxConversion& c) {
  const bool negative = c.integer("detect_negative", 1) != 0;
  const bool positive = c.integer("detect_positive", 1) != 0;
  c.check(negative || positive, "detect_negative and detect_positive are 0: expected one of them");
  const double infinity = std::numeric_limits<double>::infinity();
  const OnnxValue x = negative && positive ? c.call("abs", {operand(c, 0)}) : operand(c, 0);
  const OnnxValue y = c.call("equal", {x, c.constant(positive ? infinity : -infinity)});
  return {OnnxConversion::typed(y, OnnxType::boolean)};
}

Values where_of(OnnxConversion& c) {
  OnnxValue condition = c.for_each_sample(0);
  if (condition.is_constant()) condition = number_operand(c, condition);
  const bool are_whole =
      c[1].is_whole() && c[2].is_whole() && !(c[1].is_constant() && c[2].is_constant());
  c.check(!are_whole || c[1].type == OnnxType::boolean,
          "it chooses among integers of the data: expected floating numbers");
  const OnnxValue y = c.call("where", {condition, operand(c, 1), operand(c, 2)});
  return {OnnxConversion::typed(y, c[1].type)};
}

// Types. A network computes in one floating type, and has integers for indices alone.

Values cast_to(OnnxConversion& c, OnnxType type) {
  const OnnxValue& x = c[0];
  c.check(type != OnnxType::string, "it makes text of numbers: expected numbers");
  if (type == OnnxType::boolean && x.type != OnnxType::boolean) {
    const OnnxValue y = c.call("not_equal", {operand(c, 0), c.constant(0)});
    return {OnnxConversion::typed(y, type)};
  }
  if (is_floating(type)) return {OnnxConversion::typed(operand(c, 0), type)};
  c.check(!is_floating(x.type),
          "it makes integers of floating numbers that depend on the data: expected no cast, or an "
          "input of integers");
  return {OnnxConversion::typed(x, type)};
}
Values cast_of(OnnxConversion& c) {
  c.pass_over("saturate");
  c.pass_over("round_mode");
  return cast_to(c, OnnxType(c.integer("to", 1)));
}
Values cast_like_of(OnnxConversion& c) {
  c.pass_over("saturate");
  c.pass_over("round_mode");
  // The network computes in the type that it is asked for, which may be wider than the file's.
  if (c[0].is_constant() && !c[1].is_constant() && is_floating(c[1].type)) {
    const OnnxConstant& known = *c[0].constant;
    return {onnx_value_of(std::make_shared<const OnnxConstant>(
        OnnxType::f64, std::array{known.shape(0), known.shape(1)},
        std::array{known.numbers(0), known.numbers(1)}))};
  }
  return cast_to(c, c[1].type);
}

Values identity_of(OnnxConversion& c) { return {c[0]}; }

}  // namespace

void detail::add_onnx_elementwise_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      ACCRUE_ONNX_UNARY("Exp", "exp"),
      ACCRUE_ONNX_UNARY("Log", "log"),
      ACCRUE_ONNX_UNARY("Sqrt", "sqrt"),
      ACCRUE_ONNX_UNARY("Reciprocal", "reciprocal"),
      ACCRUE_ONNX_UNARY("Abs", "abs"),
      ACCRUE_ONNX_UNARY("Neg", "neg"),
      ACCRUE_ONNX_UNARY("Sign", "sign"),
      ACCRUE_ONNX_UNARY("Floor", "floor"),
      ACCRUE_ONNX_UNARY("Ceil", "ceil"),
      ACCRUE_ONNX_UNARY("Round", "round"),
      ACCRUE_ONNX_UNARY("Erf", "erf"),
      ACCRUE_ONNX_UNARY("Sin", "sin"),
      ACCRUE_ONNX_UNARY("Cos", "cos"),
      ACCRUE_ONNX_UNARY("Tan", "tan"),
      ACCRUE_ONNX_UNARY("Asin", "asin"),
      ACCRUE_ONNX_UNARY("Acos", "acos"),
      ACCRUE_ONNX_UNARY("Atan", "atan"),
      ACCRUE_ONNX_UNARY("Sinh", "sinh"),
      ACCRUE_ONNX_UNARY("Cosh", "cosh"),
      ACCRUE_ONNX_UNARY("Asinh", "asinh"),
      ACCRUE_ONNX_UNARY("Acosh", "acosh"),
      ACCRUE_ONNX_UNARY("Atanh", "atanh"),
      ACCRUE_ONNX_UNARY("Softsign", "softsign"),
      ACCRUE_ONNX_UNARY("Relu", "relu"),
      ACCRUE_ONNX_UNARY("Sigmoid", "sigmoid"),
      ACCRUE_ONNX_UNARY("Tanh", "tanh"),
      ACCRUE_ONNX_UNARY("Mish", "mish"),
      ACCRUE_ONNX_UNARY("HardSwish", "hard_swish"),
      {"LeakyRelu", {leaky_relu_of}},
      {"Elu", {elu_of}},
      {"Celu", {celu_of}},
      {"Selu", {selu_of}},
      {"Gelu", {gelu_of}},
      {"HardSigmoid", {hard_sigmoid_of}},
      {"Shrink", {shrink_of}},
      {"ThresholdedRelu", {thresholded_relu_of}},
      {"Softplus", {softplus_of}},
      {"PRelu", {prelu_of, {1}}},
      {"Add", {add_of}},
      {"Sub", {sub_of}},
      {"Mul", {mul_of}},
      {"Div", {div_of}},
      {"Pow", {pow_of}},
      {"Mod", {mod_of}},
      {"Sum", {sum_of_all}},
      {"Max", {max_of}},
      {"Min", {min_of}},
      {"Mean", {mean_of}},
      {"Clip", {clip_of}},
      {"Equal", {compared<equal>}},
      {"Greater", {compared<greater>}},
      {"Less", {compared<less>}},
      {"GreaterOrEqual", {compared<greater_equal>}},
      {"LessOrEqual", {compared<less_equal>}},
      {"And", {logical<logical_and>}},
      {"Or", {logical<logical_or>}},
      {"Xor", {logical<logical_xor>}},
      {"Not", {not_of}},
      {"IsNaN", {is_nan_of}},
      {"IsInf", {is_inf_of}},
      {"Where", {where_of}},
      {"Cast", {cast_of}},
      {"CastLike", {cast_like_of}},
      {"Identity", {identity_of}},
  };
  converters.insert(rows.begin(), rows.end());
}

#undef ACCRUE_ONNX_UNARY

}  // namespace accrue
