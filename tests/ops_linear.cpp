// Matrix products, and the loss that most of them end in.

#include <cmath>

#include "core/autograd.h"
#include "kernels/cross_entropy.h"
#include "kernels/linear.h"
#include "tests/catch.h"
#include "tests/op_table.h"

namespace accrue::test {
namespace {

struct LinearSizes {
  size_t N = 5, I = 7, O = 3;
};

Op linear_op(std::string name, Activation activation, bool bias, LinearSizes sizes = {}) {
  const auto [N, I, O] = sizes;
  const auto shape = [](auto... size) { return Shape{static_cast<int64_t>(size)...}; };
  std::vector<Shape> inputs{shape(N, I), shape(O, I)};
  if (bias) inputs.push_back(shape(O));
  return {
      .name = std::move(name),
      .inputs = inputs,
      .run =
          [=](const auto& in) { return linear(in[0], in[1], bias ? in[2] : Tensor(), activation); },
      .reference =
          [=](const auto& in) {
            Values y(N * O);
            for (size_t n = 0; n < N; ++n)
              for (size_t o = 0; o < O; ++o) {
                double sum = bias ? in[2][o] : 0;
                for (size_t i = 0; i < I; ++i) sum += in[0][n * I + i] * in[1][o * I + i];
                y[n * O + o] = activation == Activation::relu ? std::max(sum, 0.0) : sum;
              }
            return y;
          },
      .depth = static_cast<double>(I + 2)};
}

}  // namespace

TEST_CASE("linear", "[ops]") {
  check_op(linear_op("linear", Activation::none, true));
  check_op(linear_op("linear without bias", Activation::none, false));
  check_op(linear_op("linear + relu", Activation::relu, true));
  // Whole vectors and few samples: the weight gradient has a kernel of its own, in parts of 32
  // rows.
  check_op(linear_op("linear of few samples", Activation::none, true, {.N = 3, .I = 48, .O = 37}));
}

TEST_CASE("matmul", "[ops]") {
  constexpr size_t M = 4, N = 3, K = 6;
  check_op({.name = "matmul",
            .inputs = {{M, K}, {K, N}},
            .run = [](const auto& in) { return matmul(in[0], in[1]); },
            .reference =
                [](const auto& in) {
                  Values c(M * N);
                  for (size_t m = 0; m < M; ++m)
                    for (size_t n = 0; n < N; ++n)
                      for (size_t k = 0; k < K; ++k)
                        c[m * N + n] += in[0][m * K + k] * in[1][k * N + n];
                  return c;
                },
            .depth = K + 1});
}

TEST_CASE("cross_entropy", "[ops]") {
  static const std::vector<int32_t> labels{2, 0, 4, 4, 1, 3};
  check_op({.name = "cross_entropy",
            .inputs = {{6, 5}},
            .run = [](const auto& in) { return cross_entropy(in[0], indices(labels, in[0])); },
            .reference =
                [](const auto& in) {
                  double loss = 0;
                  for (size_t n = 0; n < 6; ++n) {
                    double sum = 0;
                    for (size_t c = 0; c < 5; ++c) sum += std::exp(in[0][n * 5 + c]);
                    loss += std::log(sum) - in[0][n * 5 + static_cast<size_t>(labels[n])];
                  }
                  return Values{loss / 6};
                },
            .depth = 16,
            .low = -4,
            .high = 4});
}

TEST_CASE("cross_entropy survives large logits", "[ops]") {
  const Tensor x = require_grad(Tensor::from(std::vector<float>{1e4f, -1e4f}, {1, 2}));
  const Tensor loss = cross_entropy(x, Tensor::from(std::vector<int32_t>{1}, {1}));
  REQUIRE(loss.item() == 2e4);
  backward(loss);
  REQUIRE(grad(x).span<float>()[0] == 1);
  REQUIRE(grad(x).span<float>()[1] == -1);
}

TEST_CASE("matrix ops refuse what does not fit", "[ops]") {
  const auto make = [](const Shape& shape) {
    return Tensor::full(shape, 1, DType::f32, Device::cpu);
  };
  REQUIRE_ERROR(linear(make({2, 3}), make({4, 5}), Tensor()), "x [2, 3] and w [4, 5]");
  REQUIRE_ERROR(linear(make({2, 3}), make({4, 3}), make({5})), "expected b [4]");
  REQUIRE_ERROR(matmul(make({2, 3}), make({4, 5})), "a [2, 3] and b [4, 5]");
  REQUIRE_ERROR(linear(make({2, 3}), Tensor::full({4, 3}, 1, DType::f64, Device::cpu), Tensor()),
                "f32 [2, 3] and f64 [4, 3]");
  REQUIRE_ERROR(cross_entropy(make({2, 3}), Tensor::from(std::vector<int32_t>{0, 3}, {2})),
                "label 3 of sample 1 is outside [0, 3)");
}

}  // namespace accrue::test
