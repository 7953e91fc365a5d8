// Activations: y = f(x), element by element.

#include "kernels/pointwise.h"

#include <array>
#include <cmath>
#include <numbers>

#include "core/autograd.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

template <class Run, class F>
Op activation(std::string name, Run run, F f) {
  return {.name = std::move(name),
          .inputs = {{3, 7, 2}},
          .run = [=](const auto& in) { return run(in[0]); },
          .reference =
              [=](const auto& in) {
                Values y;
                for (double x : in[0]) y.push_back(f(x));
                return y;
              },
          .low = -3,
          .high = 3,
          .gap = 1e-3};
}

// Returns y and dy/dx of y = f(x) for each x in `at`.
template <class F>
std::pair<Values, Values> values_and_slopes(F f, const Values& at, DType dtype) {
  const int64_t n = std::ssize(at);
  const auto column = [&](const auto& value_at) {
    return dispatch_floating(dtype, [&]<class T>() {
      std::vector<T> values;
      for (size_t i = 0; i < at.size(); ++i) values.push_back(T(Wide<T>(value_at(i))));
      return Tensor::from(values, {n, 1}, test_device());
    });
  };
  const Tensor x = require_grad(column([&](size_t i) { return at[i]; }));
  const Tensor y = f(x), ones = column([](size_t) { return 1; });
  backward(matmul(y.reshape({1, n}), ones));
  return {to_doubles(y), to_doubles(grad(x))};
}

constexpr std::array floating{DType::f32, DType::f64, DType::f16, DType::bf16};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

// Over all pieces of erfc, which floats on the CPU have vectors for. Its argument is rounded first.
TEST_CASE("gelu of small and large floats", "[ops]") {
  Values at{0, -0.0, 1e-30, -1e-30, INFINITY, 40, -40};
  for (double x = 1e-8; x < 12; x *= 1.03)
    at.insert(at.end(), {double(float(x)), -double(float(x))});
  for (float x = -12; x < 12; x += 0.0173f) at.push_back(x);
  const auto [y, slope] = values_and_slopes(gelu, at, DType::f32);
  REQUIRE(at.size() > 2 * 256 + 1);
  for (size_t i = 0; i < at.size(); ++i) {
    CAPTURE(at[i]);
    const float x = float(at[i]), argument = -x * float(std::numbers::sqrt2 / 2);
    const double phi = std::erfc(double(argument)) / 2;
    const double bell = std::exp(double(-x * x / 2)) * 0.3989422804014327;
    REQUIRE_THAT(y[i], Catch::Matchers::WithinRel(at[i] * phi, 4e-7) ||
                           Catch::Matchers::WithinAbs(at[i] * phi, 1e-37));
    if (std::isfinite(x))
      REQUIRE(std::abs(slope[i] - (phi + x * bell)) <= 4e-7 * (phi + std::abs(x) * bell) + 1e-37);
  }
  const auto [of_none, slope_of_none] = values_and_slopes(gelu, {NAN, -INFINITY}, DType::f32);
  for (const double value : {of_none[0], of_none[1], slope_of_none[0]}) REQUIRE(std::isnan(value));
}

TEST_CASE("activations", "[ops]") {
  check_op(activation(
      "relu", [](const Tensor& x) { return relu(x); }, [](double x) { return std::max(x, 0.0); }));
  check_op(activation(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
      [](double x) { return x > 0 ? x : 0.2 * x; }));
  check_op(
      activation("gelu", gelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }));
  check_op(activation("gelu_tanh", gelu_tanh, [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }));
  check_op(activation(
      "sigmoid", [](const Tensor& x) { return sigmoid(x); }, logistic));
  check_op(activation(
      "tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }));
  check_op(activation("silu", silu, [](double x) { return x * logistic(x); }));
}

TEST_CASE("leaky_relu refuses a slope that hides the sign of x", "[ops]") {
  REQUIRE_ERROR(leaky_relu(Tensor::full({2}, 1, DType::f32, test_device()), 0), "slope is 0");
}

TEST_CASE("relu writes over its input exactly when it is handed the last reference", "[ops]") {
  Tensor x = Tensor::full({4}, -1, DType::f32, test_device());
  const void* storage = x.view().data;
  REQUIRE(relu(x).view().data != storage);
  REQUIRE(to_doubles(x)[0] == -1);
  REQUIRE(relu(std::move(x)).view().data == storage);
}

// The values come from PyTorch 2.15 in float64, and for gelu_tanh from its definition, with 60
// decimal digits. All four dtypes hold every x.
TEST_CASE("gelu, gelu_tanh and silu give PyTorch's values", "[ops]") {
  const Values x{-12, -5, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 5, 12};
  struct Golden {
    Tensor (*f)(Tensor);
    Values y, slope;
  };
  const std::array golden{
      Golden{gelu,
             {0, -1.4332578593401202e-06, -0.015524163314440398, -0.15865525393145702,
              -0.15426876936299344, 0, 0.34573123063700656, 0.841344746068543, 2.4844758366855597,
              4.999998566742141, 12},
             {0, -7.1469460018034646e-06, -0.03761108590814519, -0.08331547058768635,
              0.13250487534383712, 0.5, 0.8674951246561629, 1.0833154705876864, 1.037611085908145,
              1.000007146946002, 1}},
      Golden{gelu_tanh,
             {-1.635985449353481e-61, -2.291796196629506e-07, -0.015084266089998582,
              -0.1588080093917233, -0.15428599017485609, 0.0, 0.34571400982514394,
              0.8411919906082767, 2.484915733910001, 4.999999770820381, 12.0},
             {-5.290403352522559e-60, -1.5463619875325946e-06, -0.037951576212666184,
              -0.08296408384578255, 0.1326300964653577, 0.5, 0.8673699035346423, 1.0829640838457826,
              1.037951576212666, 1.0000015463619876, 1.0}},
      Golden{silu,
             {-7.373009522657661e-05, -0.03346425462142428, -0.18964545005310887,
              -0.2689414213699951, -0.1887703343990727, 0, 0.3112296656009273, 0.7310585786300049,
              2.3103545499468914, 4.966535745378576, 11.999926269904773},
             {-6.758546761378339e-05, -0.026547432429665917, -0.09940111134152683,
              0.07232948812851325, 0.2600388126973482, 0.5, 0.7399611873026519, 0.9276705118714869,
              1.0994011113415267, 1.0265474324296655, 1.0000675854676138}}};
  for (const Golden& expected : golden)
    for (const DType dtype : floating) {
      // As in the op table: 8 roundings of the wide type, four times that if terms of a slope
      // cancel, and the rounding of a 16-bit result.
      const double wide_unit = wide(dtype) == DType::f64 ? 0x1p-53 : 0x1p-24;
      const double last = dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0;
      const auto [y, slope] = values_and_slopes(expected.f, x, dtype);
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(name(dtype) << " at " << x[i]);
        REQUIRE(std::abs(y[i] - expected.y[i]) <=
                (8 * wide_unit + last) * std::max(1.0, std::abs(expected.y[i])));
        REQUIRE(std::abs(slope[i] - expected.slope[i]) <= 32 * wide_unit + 2 * last);
      }
    }
}

// Where exponentials overflow or vanish, the result must not be 0 * infinity.
TEST_CASE("gelu, gelu_tanh and silu far from zero are x or nothing", "[ops]") {
  for (const auto f : {gelu, gelu_tanh, silu})
    for (const DType dtype : floating) {
      const double largest = dtype == DType::f16 ? 65504 : dtype == DType::f64 ? 1e308 : 0x1p127;
      const Values x{40, 4096, largest, -40, -4096, -largest};
      const auto [y, slope] = values_and_slopes(f, x, dtype);
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(name(dtype) << " at " << x[i]);
        REQUIRE(std::abs(y[i] - std::max(x[i], 0.0)) <= 1e-15);
        REQUIRE(std::abs(slope[i] - (x[i] > 0 ? 1 : 0)) <= 1e-15);
      }
    }
}

TEST_CASE("a NaN goes through gelu, gelu_tanh and silu, forward and backward", "[ops]") {
  for (const auto f : {gelu, gelu_tanh, silu})
    for (const DType dtype : floating) {
      const auto [y, slope] = values_and_slopes(f, Values(20, NAN), dtype);
      for (size_t i = 0; i < y.size(); ++i) REQUIRE((std::isnan(y[i]) && std::isnan(slope[i])));
    }
}

// A NaN in its loss makes a window skipped, so relu must not turn a NaN into 0.
TEST_CASE("a NaN goes through relu, alone and fused", "[ops]") {
  for (const DType dtype : floating) {
    const auto filled = [&](const Shape& shape, double value) {
      return Tensor::full(shape, value, dtype, test_device());
    };
    INFO(name(dtype));
    for (const double value : to_doubles(relu(filled({2, 20}, NAN)))) REQUIRE(std::isnan(value));
    for (const double value : to_doubles(
             linear(filled({2, 20}, NAN), filled({24, 20}, 1), filled({24}, 1), Activation::relu)))
      REQUIRE(std::isnan(value));
    for (const double value : to_doubles(conv2d(filled({2, 3, 6, 6}, NAN), filled({4, 3, 3, 3}, 1),
                                                filled({4}, 1), {}, Activation::relu)))
      REQUIRE(std::isnan(value));
  }
}

}  // namespace accrue::test
