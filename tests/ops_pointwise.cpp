// Activations: y = f(x), element by element.

#include <cmath>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "tests/catch.h"
#include "tests/device.h"
#include "tests/op_table.h"

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

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("activations", "[ops]") {
  check_op(activation(
      "relu", [](const Tensor& x) { return relu(x); }, [](double x) { return std::max(x, 0.0); }));
  check_op(activation(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
      [](double x) { return x > 0 ? x : 0.2 * x; }));
  check_op(
      activation("gelu", gelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }));
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

// A window is skipped for a NaN in its loss: a relu before it must not turn one into a zero.
TEST_CASE("a NaN goes through relu, alone and fused", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
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
