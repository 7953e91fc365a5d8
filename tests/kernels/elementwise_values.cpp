// Formulas of elementwise ops where a number is special: at steps and ties, NaN, infinity, and the
// ends of float32's range.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/autograd.h"
#include "kernels/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

constexpr double inf = HUGE_VAL, nan = NAN;
constexpr std::array floating_dtypes{DType::f32, DType::f64, DType::f16, DType::bf16};

// y and the gradients of its sum with respect to the operands, in this dtype.
struct ValuesAndSlopes {
  Values y;
  std::vector<Values> gradients;
};

ValuesAndSlopes outcome_of(Formula formula, const std::vector<Values>& operands, DType dtype,
                           const std::vector<double>& scalars = {}) {
  std::array<Tensor, 3> x;
  for (size_t k = 0; k < operands.size(); ++k)
    x[k] = require_grad(tensor_with(operands[k], {std::ssize(operands[k])}, dtype));
  const Tensor y = apply(formula, x, scalars);
  ValuesAndSlopes outcome{to_doubles(y), {}};
  if (!y.variable()) return outcome;
  backward_from(y, Values(operands[0].size(), 1));
  for (size_t k = 0; k < operands.size(); ++k)
    if (x[k].variable()->grad.defined()) outcome.gradients.push_back(to_doubles(grad(x[k])));
  return outcome;
}

bool alike(const Values& a, const Values& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

// PyTorch 2.15, float64. Every number is one of all four dtypes.
TEST_CASE("minimum and maximum share the gradient of a tie, and a NaN stays one", "[ops]") {
  const Values a{1, 2, 2, nan, 1, nan, inf, inf, -inf, 0},
      b{2, 1, 2, 1, nan, nan, inf, -inf, inf, -0.0};
  for (const DType dtype : floating_dtypes) {
    INFO(name(dtype));
    const ValuesAndSlopes most = outcome_of(Formula::maximum, {a, b}, dtype);
    REQUIRE(alike(most.y, {2, 2, 2, nan, nan, nan, inf, inf, inf, 0}));
    REQUIRE(most.gradients[0] == Values{0, 1, 0.5, 1, 1, 1, 0.5, 1, 0, 0.5});
    REQUIRE(most.gradients[1] == Values{1, 0, 0.5, 1, 1, 1, 0.5, 0, 1, 0.5});
    const ValuesAndSlopes least = outcome_of(Formula::minimum, {a, b}, dtype);
    REQUIRE(alike(least.y, {1, 1, 2, nan, nan, nan, inf, -inf, -inf, 0}));
    REQUIRE(least.gradients[0] == Values{1, 0, 0.5, 1, 1, 1, 0.5, 0, 1, 0.5});
    REQUIRE(least.gradients[1] == Values{0, 1, 0.5, 1, 1, 1, 0.5, 1, 0, 0.5});
  }
}

TEST_CASE("comparisons and logical formulas give 0 or 1 and have no gradient", "[ops]") {
  const Values a{1, 2, 2, nan, 0, 0, inf}, b{2, 1, 2, 1, nan, -0.0, inf};
  const std::vector<std::pair<Formula, Values>> expected = {
      {Formula::equal, {0, 0, 1, 0, 0, 1, 1}},
      {Formula::not_equal, {1, 1, 0, 1, 1, 0, 0}},
      {Formula::less, {1, 0, 0, 0, 0, 0, 0}},
      {Formula::less_equal, {1, 0, 1, 0, 0, 1, 1}},
      {Formula::greater, {0, 1, 0, 0, 0, 0, 0}},
      {Formula::greater_equal, {0, 1, 1, 0, 0, 1, 1}},
      {Formula::logical_and, {1, 1, 1, 1, 0, 0, 1}},
      {Formula::logical_or, {1, 1, 1, 1, 1, 0, 1}},
      {Formula::logical_xor, {0, 0, 0, 0, 1, 0, 0}}};
  for (const DType dtype : floating_dtypes) {
    for (const auto& [formula, y] : expected) {
      INFO(name(dtype) << " " << info_of(formula).name);
      const ValuesAndSlopes outcome = outcome_of(formula, {a, b}, dtype);
      REQUIRE(outcome.y == y);
      REQUIRE(outcome.gradients.empty());
    }
    REQUIRE(outcome_of(Formula::is_nan, {a}, dtype).y == Values{0, 0, 0, 1, 0, 0, 0});
    REQUIRE(outcome_of(Formula::logical_not, {a}, dtype).y == Values{0, 0, 0, 0, 1, 1, 0});
  }
}

// PyTorch 2.15, float64. Every quotient is one of all four dtypes.
TEST_CASE("remainders have the sign of the divisor, and quotients are rounded down", "[ops]") {
  const Values a{5, -5, 5, -5, 0, 1, nan, inf, 2, -6}, b{3, 3, -3, -3, 2, 0, 1, 2, inf, inf};
  for (const DType dtype : floating_dtypes) {
    INFO(name(dtype));
    const ValuesAndSlopes rest = outcome_of(Formula::remainder, {a, b}, dtype);
    REQUIRE(alike(rest.y, {2, 1, -1, -2, 0, nan, nan, nan, 2, inf}));
    REQUIRE(rest.gradients[0] == Values(a.size(), 1));
    REQUIRE(alike(rest.gradients[1], {-1, 2, 2, -1, 0, -inf, nan, nan, 0, 1}));
    const ValuesAndSlopes quotient = outcome_of(Formula::floor_divide, {a, b}, dtype);
    REQUIRE(alike(quotient.y, {1, -2, -2, 1, 0, inf, nan, nan, 0, -1}));
    REQUIRE(quotient.gradients.empty());
  }
  const ValuesAndSlopes angle =
      outcome_of(Formula::atan2, {{0, 0, 1, -1, nan}, {0, -1, 0, 0, 1}}, DType::f64);
  REQUIRE(alike(angle.y, {0, std::acos(-1), std::acos(0), -std::acos(0), nan}));
  REQUIRE(alike(angle.gradients[0], {0, -1, 0, 0, nan}));
  REQUIRE(alike(angle.gradients[1], {0, 0, -1, 1, nan}));
}

// CUDA has functions of its own for any size; glibc's are the judge.
TEST_CASE("sine, cosine and tangent are exact far from zero, too", "[ops]") {
  Values x{0, -0.0, 0.5, -3, 22, 1e5, -131073.5, 1e7, -3e10, 0x1p100, -0x1.8p120};
  for (const DType dtype : {DType::f32, DType::f64}) {
    if (dtype == DType::f64)
      for (const double far : {1e22, -1e300, 0x1p53, 0x1.921fb54442d18p1}) x.push_back(far);
    const double unit = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
    const auto check = [&](Formula formula, double (*f)(double)) {
      const Values y = outcome_of(formula, {x}, dtype).y;
      for (size_t i = 0; i < x.size(); ++i) {
        const double number = dtype == DType::f32 ? float(x[i]) : x[i], wanted = f(number);
        INFO(name(dtype) << " " << info_of(formula).name << " of " << number);
        REQUIRE(std::abs(y[i] - wanted) <= 10 * unit * std::abs(wanted));
        REQUIRE(std::signbit(y[i]) == std::signbit(wanted));
      }
    };
    check(Formula::sin, std::sin);
    check(Formula::cos, std::cos);
    check(Formula::tan, std::tan);
  }
  REQUIRE(alike(outcome_of(Formula::sin, {{inf, -inf, nan}}, DType::f32).y, {nan, nan, nan}));
}

TEST_CASE("the condition of where may have integers", "[ops]") {
  for (const DType dtype : floating_dtypes) {
    const Tensor b = require_grad(tensor_with({1, 2, 3}, {3}, dtype)),
                 c = require_grad(tensor_with({4, 5}, {2, 1}, dtype));
    for (const bool is_byte : {false, true}) {
      const Tensor condition =
          is_byte
              ? Tensor::from(std::vector<uint8_t>{0, 1, 200, 1, 0, 0}, {2, 3}, test_device())
              : Tensor::from(std::vector<int32_t>{0, 1, -70000, 1, 0, 0}, {2, 3}, test_device());
      zero_grad(b);
      zero_grad(c);
      const Tensor y = where(condition, b, c);
      REQUIRE(y.dtype() == dtype);
      REQUIRE(to_doubles(y) == Values{4, 2, 3, 1, 5, 5});
      backward_from(y, {1, 2, 3, 4, 5, 6});
      REQUIRE(to_doubles(grad(b)) == Values{4, 2, 3});
      REQUIRE(to_doubles(grad(c)) == Values{1, 11});
      // One that nobody else has is not written over.
      REQUIRE(to_doubles(where(Tensor(condition), ones({2, 3}), ones({}))) == Values(6, 1));
    }
  }
  REQUIRE_ERROR(where(ones({2}), indices({1, 2}, ones({2})), ones({2})), "[where]");
  REQUIRE_ERROR(sub(indices({1}, ones({1})), ones({1})), "[sub]");
}

// PyTorch 2.15, float64.
TEST_CASE("formulas at their steps, and of NaN and infinity, are PyTorch's", "[ops]") {
  const Values x{nan, inf, -inf, 0, 3, -3, 2.5, -0.5, 1.5, 0.5};
  struct Golden {
    Formula formula;
    Values y, slope;
    std::vector<double> scalars = {};
  };
  const Values none(x.size(), 0);
  const std::vector<Golden> golden = {
      {Formula::sign, {0, 1, -1, 0, 1, -1, 1, -1, 1, 1}, none},
      {Formula::floor, {nan, inf, -inf, 0, 3, -3, 2, -1, 1, 0}, none},
      {Formula::ceil, {nan, inf, -inf, 0, 3, -3, 3, 0, 2, 1}, none},
      {Formula::round, {nan, inf, -inf, 0, 3, -3, 2, 0, 2, 0}, none},
      {Formula::abs,
       {nan, inf, inf, 0, 3, 3, 2.5, 0.5, 1.5, 0.5},
       {0, 1, -1, 0, 1, -1, 1, -1, 1, 1}},
      {Formula::clamp,
       {nan, 2.5, -0.5, 0, 2.5, -0.5, 2.5, -0.5, 1.5, 0.5},
       {0, 0, 0, 1, 0, 0, 0, 0, 1, 1},
       {-0.5, 2.5}},
      {Formula::clamp,
       {nan, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5},
       none,
       {2.5, -0.5}},
      {Formula::sqrt,
       {nan, inf, nan, 0, std::sqrt(3), nan, std::sqrt(2.5), nan, std::sqrt(1.5), std::sqrt(0.5)},
       {nan, 0, nan, inf, 0.5 / std::sqrt(3), nan, 0.5 / std::sqrt(2.5), nan, 0.5 / std::sqrt(1.5),
        0.5 / std::sqrt(0.5)}},
      {Formula::exp,
       {nan, inf, 0, 1, std::exp(3), std::exp(-3), std::exp(2.5), std::exp(-0.5), std::exp(1.5),
        std::exp(0.5)},
       {nan, inf, 0, 1, std::exp(3), std::exp(-3), std::exp(2.5), std::exp(-0.5), std::exp(1.5),
        std::exp(0.5)}},
      {Formula::hard_sigmoid,
       {nan, 1, 0, 0.5, 1, 0, 2.75 / 3, 1.25 / 3, 0.75, 1.75 / 3},
       {0, 0, 0, 1.0 / 6, 0, 0, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6}},
      {Formula::hard_swish,
       {nan, inf, nan, 0, 3, 0, 2.2916666666666665, -0.20833333333333334, 1.125,
        0.2916666666666667},
       {1, 1, 0, 0.5, 1, 0, 1.3333333333333335, 0.33333333333333337, 1, 0.6666666666666666}},
      {Formula::elu,
       {nan, inf, -1, 0, 3, -0.950212931632136, 2.5, -0.3934693402873666, 1.5, 0.5},
       {1, 1, 0, 1, 1, 0.049787068367863944, 1, 0.6065306597126334, 1, 1}},
      {Formula::selu,
       {nan, inf, -1.7580993408473766, 0, 3.1521029620664414, -1.6705687287671118,
        2.626752468388701, -0.6917581878028713, 1.5760514810332207, 0.5253504936777402},
       {1.0507009873554805, 1.0507009873554805, 0, 1.7580993408473766, 1.0507009873554805,
        0.08753061208026487, 1.0507009873554805, 1.0663411530445053, 1.0507009873554805,
        1.0507009873554805}},
      {Formula::log_sigmoid,
       {nan, 0, -inf, -0.6931471805599453, -0.04858735157374206, -3.048587351573742,
        -0.07888973429254963, -0.9740769841801067, -0.2014132779827524, -0.4740769841801067},
       {nan, 0, 1, 0.5, 0.04742587317756679, 0.9525741268224333, 0.07585818002124356,
        0.6224593312018545, 0.18242552380635632, 0.37754066879814546}},
      {Formula::softplus,
       {nan, inf, 0, 0.6931471805599453, 3.048587351573742, 0.04858735157374206, 2.5788897342925496,
        0.4740769841801067, 1.7014132779827524, 0.9740769841801067},
       {nan, 1, 0, 0.5, 0.9525741268224333, 0.04742587317756679, 0.9241418199787564,
        0.37754066879814546, 0.8175744761936437, 0.6224593312018546}},
      // Twice x is more than the threshold from 1.5 on.
      {Formula::softplus,
       {nan, inf, 0, 0.34657359027997264, 3, 0.0012378425688652247, 2.5, 0.15663084375911143, 1.5,
        0.6566308437591114},
       {nan, 1, 0, 0.5, 1, 0.0024726231566347748, 1, 0.2689414213699951, 1, 0.7310585786300049},
       {2, 2.9}},
      {Formula::threshold,
       {nan, inf, -7, -7, 3, -7, 2.5, -7, 1.5, -7},
       {1, 1, 0, 0, 1, 0, 1, 0, 1, 0},
       {0.5, -7}},
      // hardshrink and softshrink
      {Formula::shrink, {nan, inf, -inf, 0, 3, -3, 2.5, 0, 1.5, 0}, {0, 1, 1, 0, 1, 1, 1, 0, 1, 0}},
      {Formula::shrink,
       {nan, inf, -inf, 0, 2.5, -2.5, 2, 0, 1, 0},
       {0, 1, 1, 0, 1, 1, 1, 0, 1, 0},
       {0.5, 0.5}},
      {Formula::pow_scalar, Values(x.size(), 1), none, {0}},
  };
  for (const Golden& expected : golden)
    for (const DType dtype : floating_dtypes) {
      const double unit = dtype == DType::f64    ? 0x1p-53
                          : dtype == DType::f16  ? 0x1p-11
                          : dtype == DType::bf16 ? 0x1p-8
                                                 : 0x1p-24;
      const ValuesAndSlopes outcome = outcome_of(expected.formula, {x}, dtype, expected.scalars);
      const auto require_close = [&](const Values& actual, const Values& wanted) {
        for (size_t i = 0; i < x.size(); ++i) {
          INFO(name(dtype) << " " << info_of(expected.formula).name << " at " << x[i]);
          if (std::isnan(wanted[i])) REQUIRE(std::isnan(actual[i]));
          else if (std::isinf(wanted[i])) REQUIRE(actual[i] == wanted[i]);
          else
            REQUIRE(std::abs(actual[i] - wanted[i]) <=
                    1e-13 + 8 * unit * std::max(1.0, std::abs(wanted[i])));
        }
      };
      require_close(outcome.y, expected.y);
      require_close(outcome.gradients.at(0), expected.slope);
    }
}

// PyTorch 2.15, float64.
TEST_CASE("pow and its gradients where a base or an exponent is special", "[ops]") {
  const Values a{0, 0, 0, -2, -2, -2, 2, nan, 1, 0, inf, -inf, 2},
      b{0, 2, -1, 3, 0.5, 0, -1, 0, nan, nan, 0, 2, inf};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ValuesAndSlopes outcome = outcome_of(Formula::pow, {a, b}, dtype);
    REQUIRE(alike(outcome.y, {1, 0, inf, -8, nan, 1, 0.5, 1, 1, nan, 1, inf, inf}));
    REQUIRE(
        alike(outcome.gradients[0], {0, 0, -inf, 12, nan, 0, -0.25, 0, nan, nan, 0, -inf, inf}));
    const double log_2 = dtype == DType::f32 ? double(std::log(2.0f)) : std::log(2.0);
    REQUIRE(alike(outcome.gradients[1],
                  {0, 0, -inf, nan, nan, nan, 0.5 * log_2, nan, 0, nan, inf, nan, inf}));
  }
}

TEST_CASE("exponentials and logarithms in float32 are right for every number", "[ops]") {
  Values x{0, -0.0, inf, -inf, nan, 0x1p-149, 0x1.8p-130, 0x1.fffffep127, -0x1.fffffep127};
  for (double at = -110; at < 92; at += 0.03125) x.push_back(at);
  for (double at = 0x1p-149; at < 0x1p127; at *= 1.5) {
    x.push_back(double(static_cast<float>(at)));
    x.push_back(-x.back());
  }
  const std::vector<std::pair<Formula, double (*)(double)>> functions = {
      {Formula::exp, [](double a) { return std::exp(a); }},
      {Formula::expm1, [](double a) { return std::expm1(a); }},
      {Formula::log, [](double a) { return std::log(a); }},
      {Formula::log1p, [](double a) { return std::log1p(a); }}};
  for (const auto& [formula, f] : functions) {
    const Values y = outcome_of(formula, {x}, DType::f32).y;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = f(x[i]), rounded = double(static_cast<float>(expected));
      INFO(info_of(formula).name << " at " << x[i] << ": " << y[i] << ", expected " << expected);
      REQUIRE((alike({y[i]}, {rounded}) ||
               std::abs(y[i] - expected) <= std::abs(expected) * 0x1p-22 + 0x1p-149));
    }
  }
}

// On the CPU a result is computed in double within 2^-30, and rounded once. On cuda the functions
// of its library are within 8 units of the last place.
TEST_CASE("functions in float32 are rounded from double for every number", "[ops]") {
  struct Row {
    Formula formula;
    double (*f)(double);
  };
  const std::vector<Row> functions = {{Formula::erf, [](double a) { return std::erf(a); }},
                                      {Formula::sin, [](double a) { return std::sin(a); }},
                                      {Formula::cos, [](double a) { return std::cos(a); }},
                                      {Formula::tan, [](double a) { return std::tan(a); }},
                                      {Formula::asin, [](double a) { return std::asin(a); }},
                                      {Formula::acos, [](double a) { return std::acos(a); }},
                                      {Formula::atan, [](double a) { return std::atan(a); }},
                                      {Formula::sinh, [](double a) { return std::sinh(a); }},
                                      {Formula::cosh, [](double a) { return std::cosh(a); }},
                                      {Formula::asinh, [](double a) { return std::asinh(a); }},
                                      {Formula::acosh, [](double a) { return std::acosh(a); }},
                                      {Formula::atanh, [](double a) { return std::atanh(a); }}};
  const double unit = test_device() == Device::cpu ? 0x1p-24 * (1 + 0x1p-6) : 8 * 0x1p-23;
  const auto is_near = [&](double y, double expected) {
    return alike({y}, {double(static_cast<float>(expected))}) ||
           std::abs(y - expected) <= std::abs(expected) * unit + 0x1p-150;
  };
  Values x{0, -0.0, inf, -inf, nan, 1, -1, 0.5, -0.5};
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 100003) {
    x.push_back(double(std::bit_cast<float>(bits)));
    x.push_back(-x.back());
  }
  for (double at = -12; at < 12; at += 0x1p-7) x.push_back(at);
  // Catch would take most of the time for an assertion of each number.
  const auto require_near = [&](std::string_view what, const Values& y, const auto& expected) {
    for (size_t i = 0; i < x.size(); ++i)
      if (const double right = expected(x[i]); !is_near(y[i], right))
        FAIL(what << " at " << x[i] << ": " << y[i] << ", expected " << right);
  };
  for (const auto& [formula, f] : functions)
    require_near(info_of(formula).name, outcome_of(formula, {x}, DType::f32).y, f);
  for (const double exponent :
       {-3.0, -1.5, 0.0, 1.0 / 3, 2.0, 3.0, 4.0, 5.5, 1e9, 0x1p106, 0x1p107, inf, -inf, nan}) {
    const double b = double(static_cast<float>(exponent));
    require_near(fmt::format("the power {}", b),
                 outcome_of(Formula::pow, {x, Values(x.size(), b)}, DType::f32).y,
                 [&](double a) { return std::pow(a, b); });
  }
}

}  // namespace accrue::test
