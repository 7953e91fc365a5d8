#include "layers/self_attention.h"

#include "core/random.h"
#include "kernels/losses.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor random_image(const Shape& shape, uint64_t seed) {
  RandomStream random(seed);
  Values values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = random.normal();
  return Tensor::from(values, shape, test_device());
}

const Tensor& tensor_named(const Parameters& parameters, std::string_view name) {
  return std::ranges::find(parameters.entries(), name, &Parameters::Entry::name)->tensor;
}

}  // namespace

TEST_CASE("self-attention starts as the identity, and learns to be more", "[models]") {
  SelfAttention layer(16);
  const Parameters parameters = place(layer, DType::f64, test_device(), 1);
  std::vector<std::string> names;
  for (const Parameters::Entry& entry : parameters.entries()) names.push_back(entry.name);
  // A module's own parameters come before its parts'.
  REQUIRE(names == std::vector<std::string>{"gamma", "query.weight", "query.bias", "key.weight",
                                            "key.bias", "value.weight", "value.bias"});
  REQUIRE(tensor_named(parameters, "query.weight").shape() == Shape{2, 16, 1, 1});
  REQUIRE(tensor_named(parameters, "value.weight").shape() == Shape{16, 16, 1, 1});

  const Tensor x = random_image({2, 16, 3, 4}, 2), target = random_image({2, 16, 3, 4}, 3);
  const Tensor y = layer(x);
  REQUIRE(to_doubles(y) == to_doubles(x));
  backward(mse_loss(y, target));
  REQUIRE(to_doubles(grad(tensor_named(parameters, "gamma")))[0] != 0);

  // If gamma is not 0, every parameter's gradient agrees with a central difference.
  const Tensor& gamma = tensor_named(parameters, "gamma");
  gamma.fill(0.5);
  parameters.zero_grad();
  backward(mse_loss(layer(x), target));
  const auto loss_with = [&](const Tensor& parameter, const Values& values) {
    const NoGrad no_grad;
    parameter.copy_from(Tensor::from(values, parameter.shape(), test_device()));
    return mse_loss(layer(x), target).item();
  };
  constexpr double h = 1e-5;
  for (const Parameters::Entry& entry : parameters.entries()) {
    INFO(entry.name);
    const Values values = to_doubles(entry.tensor), gradient = to_doubles(grad(entry.tensor));
    for (size_t i = 0; i < values.size(); i += 7) {
      Values moved = values;
      moved[i] = values[i] + h;
      const double above = loss_with(entry.tensor, moved);
      moved[i] = values[i] - h;
      const double below = loss_with(entry.tensor, moved);
      // The truncation error is O(h^2), and the rounding error about 2^-53 / h.
      REQUIRE(gradient[i] == Approx((above - below) / (2 * h)).margin(1e-9));
    }
    loss_with(entry.tensor, values);
  }
}

TEST_CASE("self-attention of few channels scores by one", "[models]") {
  SelfAttention layer(4);
  REQUIRE(layer.describe() == "self-attention 4, by scores of 1 channels");
}

}  // namespace accrue::test
