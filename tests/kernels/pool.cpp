#include "kernels/pool.h"

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "kernels/adaptive_pool.h"
#include "kernels/conv2d.h"
#include "kernels/pointwise.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/pools.h"

namespace accrue::test {
namespace {

Op adaptive_avg_pool2d_op(const Shape& x, int64_t GH, int64_t GW) {
  return {.name = fmt::format("to {} x {}", GH, GW),
          .inputs = {x},
          .run = [=](const auto& in) { return adaptive_avg_pool2d(in[0], GH, GW); },
          .reference =
              [=](const auto& in) {
                Values y;
                const int64_t H = x[2], W = x[3];
                const auto begin = [](int64_t i, int64_t size, int64_t G) {
                  return int64_t(std::floor(double(i * size) / double(G)));
                };
                const auto end = [](int64_t i, int64_t size, int64_t G) {
                  return int64_t(std::ceil(double((i + 1) * size) / double(G)));
                };
                for (int64_t plane = 0; plane < x.numel(0, 2); ++plane)
                  for (int64_t i = 0; i < GH; ++i)
                    for (int64_t j = 0; j < GW; ++j) {
                      Values window;
                      for (int64_t h = begin(i, H, GH); h < end(i, H, GH); ++h)
                        for (int64_t w = begin(j, W, GW); w < end(j, W, GW); ++w)
                          window.push_back(in[0][size_t((plane * H + h) * W + w)]);
                      y.push_back(mean(window));
                    }
                return y;
              },
          .depth = double(x.numel(2, 4)) + 2};
}

}  // namespace

TEST_CASE("adaptive_avg_pool2d", "[ops]") {
  check_op(adaptive_avg_pool2d_op({2, 3, 6, 4}, 1, 1));
  check_op(adaptive_avg_pool2d_op({2, 2, 6, 8}, 3, 2));
  check_op(adaptive_avg_pool2d_op({1, 2, 7, 5}, 3, 4));  // windows that overlap
  check_op(adaptive_avg_pool2d_op({2, 1, 3, 2}, 5, 7));  // more windows than pixels
  check_op(adaptive_avg_pool2d_op({2, 1, 1, 9}, 1, 4));
  const Tensor x = ones({1, 2, 3, 3});
  REQUIRE_ERROR(adaptive_avg_pool2d(x, 0, 2), "x [1, 2, 3, 3] to 0 x 2");
  REQUIRE_ERROR(adaptive_avg_pool2d(ones({2, 3, 3}), 1, 1), "x [2, 3, 3] to 1 x 1");
}

TEST_CASE("pools", "[ops]") {
  check_op(max_pool2d_op("max 2x2", {2, 3, 6, 8}, {2}));
  check_op(max_pool2d_op("max 2x2, last row and column left out", {2, 2, 5, 7}, {2}));
  check_op(max_pool2d_op("max 3x3 stride 2, overlapping", {2, 2, 7, 7}, {3, 2}));
  check_op(max_pool2d_op("max 2x2 stride 3, pixels left out", {1, 2, 8, 8}, {2, 3}));
  for (const Activation activation : {Activation::none, Activation::relu}) {
    check_op(max_pool2d_op("max 3x3 stride 2, padded", {2, 2, 8, 10}, {3, 2, 1}, activation));
    check_op(max_pool2d_op("max 3x3 stride 2, padded, odd", {1, 2, 7, 9}, {3, 2, 1}, activation));
    check_op(max_pool2d_op("max 3x3, padded on all sides", {1, 3, 1, 2}, {3, 2, 1}, activation));
    check_op(max_pool2d_op("max 5x5 stride 1, padded", {1, 2, 6, 3}, {5, 1, 2}, activation));
  }
  check_op(max_pool2d_op("max 2x2 + relu", {2, 3, 6, 8}, {2}, Activation::relu));
  check_op(max_pool2d_op("max 2x2 stride 1 + relu", {2, 3, 6, 8}, {2, 1}, Activation::relu));
  check_op(avg_pool2d_op("avg 2x2", {2, 3, 4, 6}, {2}));
  check_op(avg_pool2d_op("avg 3x3 stride 2, overlapping", {2, 2, 8, 7}, {3, 2}));
  check_op(max_pool2d_op("max 3x2 stride 2x1", {2, 2, 7, 6}, {{3, 2}, {2, 1}}));
  check_op(max_pool2d_op("max 1x3 stride 1x2, padded", {2, 2, 1, 8}, {{1, 3}, {1, 2}, {0, 1}}));
  for (const Activation activation : {Activation::none, Activation::relu}) {
    check_op(max_pool2d_op("max 2x2, ceil", {2, 2, 5, 7}, {2, 2, 0, true}, activation));
    check_op(max_pool2d_op("max 3x3 stride 2, ceil", {1, 2, 6, 8}, {3, 2, 0, true}, activation));
    check_op(
        max_pool2d_op("max 3x3 stride 2, padded, ceil", {1, 2, 6, 9}, {3, 2, 1, true}, activation));
    check_op(max_pool2d_op("max 3x2 stride 4x3, ceil", {1, 2, 9, 8}, {{3, 2}, {4, 3}, 0, true},
                           activation));
  }
  for (const Activation activation : {Activation::none, Activation::relu}) {
    const auto dilated = [&](std::string name, const Shape& x, Pool2dShape s, PerAxis dilation) {
      s.dilation = dilation;
      check_op(max_pool2d_op("max " + name + ", dilated", x, s, activation));
    };
    dilated("2x2", {2, 2, 6, 8}, {2}, 2);
    dilated("3x2 stride 1", {1, 2, 9, 7}, {{3, 2}, 1}, {2, 3});
    dilated("3x3 stride 2, padded", {1, 2, 8, 9}, {3, 2, 1}, {3, 2});
    dilated("3x3 stride 2, padded, ceil", {1, 2, 8, 10}, {3, 2, 1, true}, 2);
    dilated("5x1 stride 3x2, padded, ceil", {2, 1, 10, 5}, {{5, 1}, {3, 2}, {2, 0}, true}, {2, 4});
  }
  for (const bool count : {false, true}) {
    check_op(avg_pool2d_op("avg 3x3 stride 2, padded", {2, 2, 8, 7}, {3, 2, 1, false, count}));
    check_op(avg_pool2d_op("avg 2x2, padded by half", {1, 2, 5, 4}, {2, 2, 1, false, count}));
    check_op(avg_pool2d_op("avg 3x2 stride 2x1, padding 1x0", {1, 2, 6, 5},
                           {{3, 2}, {2, 1}, {1, 0}, false, count}));
    check_op(avg_pool2d_op("avg 3x3 stride 2, ceil", {1, 2, 6, 8}, {3, 2, 0, true, count}));
    check_op(avg_pool2d_op("avg 3x3 stride 2, padded, ceil", {2, 1, 6, 8}, {3, 2, 1, true, count}));
    check_op(avg_pool2d_op("avg 2x2 stride 3, ceil", {1, 2, 7, 9}, {2, 3, 1, true, count}));
  }
  check_op(avg_pool2d_op("avg 1x4 of a sequence", {2, 3, 1, 9}, {{1, 4}, {1, 2}}));
  check_op(global_avg_pool2d_op("global average, square", {2, 3, 4, 4}));
  check_op(global_avg_pool2d_op("global average, wide", {2, 3, 4, 7}));
  check_op(global_avg_pool2d_op("global average, tall", {2, 3, 7, 5}));
}

TEST_CASE("max_pool2d sends the gradient to the first of equal values, and lets a NaN win",
          "[ops]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = require_grad(
      Tensor::from(std::vector<float>{1, 1, 0, nan, 1, 1, 5, 0}, {1, 1, 2, 4}, test_device()));
  const Tensor y = max_pool2d(x, {2});
  REQUIRE(to_doubles(y)[0] == 1);
  REQUIRE(std::isnan(to_doubles(y)[1]));
  backward(conv2d(y, ones({1, 1, 1, 2}), Tensor(), {}));
  REQUIRE(to_doubles(grad(x)) == Values{1, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("max_pool2d with relu is max_pool2d and relu, for a NaN too", "[ops]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto run = [&](Activation fused) {
    const Tensor x =
        require_grad(Tensor::from(std::vector<float>{-1, -2, nan, 3, 1, 4, -5, -4, 2, 0, -1, 0},
                                  {1, 1, 2, 6}, test_device()));
    Tensor y = max_pool2d(x, {2}, fused);
    if (fused == Activation::none) y = relu(std::move(y));
    backward(conv2d(y, ones({1, 1, 1, 3}), Tensor(), {}));
    return std::pair{to_doubles(y), to_doubles(grad(x))};
  };
  const auto [y, dx] = run(Activation::none);
  const auto [fused_y, fused_dx] = run(Activation::relu);
  REQUIRE(y[0] == 0);
  REQUIRE(std::isnan(y[1]));
  REQUIRE(y[2] == 4);
  REQUIRE(fused_y[0] == 0);
  REQUIRE(std::isnan(fused_y[1]));
  REQUIRE(fused_y[2] == 4);
  REQUIRE(fused_dx == dx);
}

TEST_CASE("the padding of max_pool2d never wins", "[ops]") {
  const double infinity = std::numeric_limits<double>::infinity();
  // One window has the columns 0 and 1, the other the columns 1 and 2.
  const Tensor x = require_grad(
      Tensor::from(std::vector<double>{-3, -infinity, -2}, {1, 1, 1, 3}, test_device()));
  const Tensor y = max_pool2d(x, {3, 2, 1});
  REQUIRE(to_doubles(y) == Values{-3, -2});
  backward(conv2d(y, Tensor::full({1, 1, 1, 2}, 1, DType::f64, test_device()), Tensor(), {}));
  REQUIRE(to_doubles(grad(x)) == Values{1, 0, 1});
  REQUIRE_ERROR(max_pool2d(x, {2, 2, 1}), "padding 1 of kernel 2: expected less than half of it");
  REQUIRE_ERROR(max_pool2d(x, {3, 2, -1}), "padding -1");
  REQUIRE_ERROR(avg_pool2d(x, {{1, 3}, 2, 1}), "[avg_pool2d] padding 1 of kernel 1x3: expected at");
  REQUIRE_ERROR(max_pool2d(x, {{1, 3}, {2, 0}}), "kernel 1x3, stride 2x0");
  REQUIRE_ERROR(max_pool2d(x, {{1, 300}}), "kernel 1x300: a byte tells at most 256 winners apart");
  const auto dilated = [](Pool2dShape s, PerAxis dilation) {
    s.dilation = dilation;
    return s;
  };
  REQUIRE_ERROR(max_pool2d(x, dilated({{1, 2}, 1}, {1, 3})),
                "kernel 1x2, stride 1, padding 0 and dilation 1x3 with x [1, 1, 1, 3]");
  REQUIRE_ERROR(max_pool2d(x, dilated({1}, {1, 0})), "dilation 1x0");
  REQUIRE_ERROR(avg_pool2d(x, dilated({1}, 2)), "[avg_pool2d] dilation 2: expected 1");
}

TEST_CASE("max_pool2d keeps one byte per output", "[ops]") {
  const Tensor x = require_grad(Tensor::full({4, 4, 16, 16}, 1, DType::f32, Device::meta));
  const size_t before = ledger(Device::meta).current().total();
  const Tensor y = max_pool2d(x, {2});
  REQUIRE(ledger(Device::meta).current().total() - before ==
          y.bytes() + static_cast<size_t>(y.numel()));
}

}  // namespace accrue::test
