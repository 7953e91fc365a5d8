#pragma once

#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "kernels/detail/elementwise_formulas.h"

namespace accrue {

// The formulas of kernels/detail/elementwise_formulas.h by name, such as Formula::exp.
#define ACCRUE_NAME(name, ...) name,
enum class Formula { ACCRUE_FORMULAS(ACCRUE_NAME, ACCRUE_NAME, ACCRUE_NAME) };
#undef ACCRUE_NAME

// y[i] = f(a[i], b[i], c[i]) for each index i, by one of the formulas, which has one, two or three
// operands. Their shapes are broadcast as in NumPy: aligned at the last dimension, where an operand
// has size 1, or has no such dimension, its elements are repeated. A formula has up to two scalars,
// such as elu's alpha; those that are not given have their defaults.
// Backward: da[j] = sum over the i at which a[j] was read of dy[i] * df/da, and so on for b and c,
// added up in a fixed order. Keeps of its operands and of y those that df/da reads, according to
// the list. Where nothing that is kept prevents it, y goes over an operand of its shape that is
// handed over with its last reference, and dx over dy. Comparisons and logical formulas give 0 or
// 1 and have no gradient; any number but 0 counts as true. The condition of where() may be i32 or
// u8.
// Beside 16-bit operands a float32 parameter is read from its 16-bit copy, and its gradient is
// float32.
// Throws Error unless the operands that the formula has are defined, and no others, of one floating
// dtype and on one device, of shapes that can be broadcast; and for too many scalars.
Tensor apply(Formula formula, std::array<Tensor, 3> operands,
             const std::vector<double>& scalars = {});

// Each formula as a function of its name: exp(x), div(a, b), where(condition, a, b), elu(x, alpha),
// with the scalars' defaults.
#define ACCRUE_UNARY_FUNCTION(name, onnx, scalars, ...)                      \
  inline Tensor name(Tensor a ACCRUE_DEFAULTS_##scalars) {                   \
    return apply(Formula::name, {std::move(a)}, {ACCRUE_SCALARS_##scalars}); \
  }
#define ACCRUE_BINARY_FUNCTION(name, ...)                      \
  inline Tensor name(Tensor a, Tensor b) {                     \
    return apply(Formula::name, {std::move(a), std::move(b)}); \
  }
#define ACCRUE_TERNARY_FUNCTION(name, ...)                                   \
  inline Tensor name(Tensor a, Tensor b, Tensor c) {                         \
    return apply(Formula::name, {std::move(a), std::move(b), std::move(c)}); \
  }
ACCRUE_NAMED_FORMULAS(ACCRUE_UNARY_FUNCTION, ACCRUE_BINARY_FUNCTION, ACCRUE_TERNARY_FUNCTION)
#undef ACCRUE_UNARY_FUNCTION
#undef ACCRUE_BINARY_FUNCTION
#undef ACCRUE_TERNARY_FUNCTION

// y = x^exponent, element by element. The exponents 2, 0.5 and -1 are square(), sqrt() and
// reciprocal(), which are faster.
Tensor pow(Tensor x, double exponent);

namespace detail {

// A line of the list.
struct FormulaInfo {
  struct Scalar {
    std::string_view name;
    double value = 0;
  };

  Formula formula;
  std::string_view name, onnx;  // onnx: empty if ONNX has no such operator
  int operands;
  std::array<Scalar, 2> scalars;  // an empty name: there is none
  // The values that the gradient of each operand reads (kernels/detail/elementwise_functions.h).
  std::array<unsigned, 3> reads;

  // False if no operand has a gradient.
  bool is_differentiable() const;
};

// All of them, in the order of Formula.
const std::vector<FormulaInfo>& all_formulas();
const FormulaInfo& info_of(Formula formula);

}  // namespace detail

}  // namespace accrue
