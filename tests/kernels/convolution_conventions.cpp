// Convolutions and pools as PyTorch has them: the order of channels in groups, how sizes are
// rounded, and by what means are divided.

#include <cmath>

#include "core/autograd.h"
#include "kernels/adaptive_pool.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/linear.h"
#include "kernels/pool.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// Element i is (i * factor) % modulus - modulus / 2.
Tensor numbers(const Shape& shape, int64_t factor, int64_t modulus) {
  Values values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = double(int64_t(i) * factor % modulus - modulus / 2);
  return require_grad(Tensor::from(values, shape, test_device()));
}

double weighed(const Tensor& t) {
  const Values values = to_doubles(t);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * double(i % 13 + 1);
  return sum;
}

// The sums of y and of its inputs' gradients are those that PyTorch 2 gives in float64.
void check_sums(const Tensor& y, const std::vector<Tensor>& inputs, const Shape& shape,
                double expected, const Values& expected_of_gradients) {
  REQUIRE(y.shape() == shape);
  REQUIRE(std::abs(weighed(y) - expected) <= 1e-11);
  const Tensor dy = numbers({y.numel(), 1}, 3, 5);
  backward(matmul(y.reshape({1, y.numel()}), dy.saved()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(weighed(grad(inputs[i])) - expected_of_gradients[i]) <= 1e-11);
  }
}

}  // namespace

TEST_CASE("convolutions with groups agree with PyTorch's", "[ops]") {
  const Tensor x = numbers({2, 4, 7, 6}, 7, 11), w = numbers({6, 2, 3, 2}, 5, 7);
  const Tensor b = numbers({6}, 3, 5);
  check_sums(conv2d(x, w, b, {{2, 1}, {{1, 0}}, {1, 2}, 2}), {x, w}, {2, 6, 4, 4}, 110,
             {-226, 274});
  zero_grad(x);
  const Tensor of_one = numbers({8, 1, 3, 3}, 5, 7);
  check_sums(conv2d(x, of_one, {}, {2, 1, 1, 4}), {x, of_one}, {2, 8, 4, 3}, -385, {64, 2160});
  zero_grad(x);
  const Tensor back = numbers({4, 3, 3, 2}, 5, 7);
  check_sums(conv_transpose2d(x, back, b, {{2, 1}, {{1, 0}}, {1, 0}, 2, {1, 2}}), {x, back},
             {2, 6, 14, 8}, -2762, {91, -2864});
}

TEST_CASE("pools agree with PyTorch's", "[ops]") {
  const Tensor x = numbers({2, 2, 7, 6}, 7, 23);
  const auto check_pool = [&](const Tensor& y, const Shape& shape, double sum, double of_gradient) {
    check_sums(y, {x}, shape, sum, {of_gradient});
    zero_grad(x);
  };
  check_pool(max_pool2d(x, {{3, 2}, {2, 3}, {1, 0}, true}), {2, 2, 4, 2}, 1653, -11);
  check_pool(max_pool2d(x, {2, 2, 0, true}), {2, 2, 4, 3}, 2190, -48);
  check_pool(avg_pool2d(x, {{3, 2}, {2, 3}, 1, true, false}), {2, 2, 4, 3}, -14.916666666666671,
             -7.5);
  check_pool(avg_pool2d(x, {{3, 2}, {2, 3}, 1, true, true}), {2, 2, 4, 3}, -32, -0.5);
  check_pool(adaptive_avg_pool2d(x, 3, 4), {2, 2, 3, 4}, 68.66666666666667, 21);
}

}  // namespace accrue::test
