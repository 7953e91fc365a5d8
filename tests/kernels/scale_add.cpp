#include "kernels/scale_add.h"

#include "core/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Values plain_scale_add(const Values& x, double gamma, const Values& a) {
  Values y = x;
  for (size_t i = 0; i < y.size(); ++i) y[i] += gamma * a[i];
  return y;
}

}  // namespace

TEST_CASE("scale_add", "[ops]") {
  check_op({.name = "scale_add",
            .inputs = {{3, 7}, {1}, {3, 7}},
            .run = [](const auto& in) { return scale_add(in[0], in[1], in[2]); },
            .reference = [](const auto& in) { return plain_scale_add(in[0], in[1][0], in[2]); },
            // dgamma is a sum of 21 products.
            .depth = 22,
            .parameters = {1}});
  check_op({.name = "scale_add of one tensor",
            .inputs = {{2, 5}, {1}},
            .run = [](const auto& in) { return scale_add(in[0], in[1], in[0]); },
            .reference = [](const auto& in) { return plain_scale_add(in[0], in[1][0], in[0]); },
            .depth = 12,
            .roundings = 2,
            .parameters = {1}});
}

// There are more elements than a piece of the sum has.
TEST_CASE("scale_add sums the factor's gradient over many elements", "[ops]") {
  const int64_t n = 40000;
  const Tensor x = Tensor::full({n}, 1, DType::f32, test_device());
  const Tensor a = Tensor::full({n}, 0.5, DType::f32, test_device());
  const Tensor gamma = require_grad(Tensor::full({1}, 2, DType::f32, test_device()));
  const Tensor y = scale_add(x, gamma, a);
  REQUIRE(to_doubles(y) == Values(n, 2));
  backward_of_sum(y);
  REQUIRE(to_doubles(grad(gamma)) == Values{n * 0.5});
}

TEST_CASE("scale_add refuses shapes that do not agree", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, test_device());
  };
  REQUIRE_ERROR(scale_add(make({2, 3}), make({1}), make({3, 2})), "x f32 [2, 3], gamma [1]");
  REQUIRE_ERROR(scale_add(make({2, 3}), make({2}), make({2, 3})), "gamma [2]");
  REQUIRE_ERROR(scale_add(make({2, 3}), make({1}, DType::f64), make({2, 3})), "gamma [1] of f32");
}

}  // namespace accrue::test
