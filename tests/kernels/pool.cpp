#include "kernels/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "kernels/conv2d.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// The reference of a pool: reduce(the values of x in the window) for every window.
template <class Reduce>
Values pool_reference(const Values& x, const Shape& shape, Pool2dShape s, Reduce reduce) {
  Values y;
  const int64_t H = shape[2], W = shape[3], p = s.padding;
  for (int64_t plane = 0; plane < shape.numel(0, 2); ++plane)
    for (int64_t h = -p; h + s.kernel <= H + p; h += s.stride)
      for (int64_t w = -p; w + s.kernel <= W + p; w += s.stride) {
        Values window;
        for (int64_t i = h; i < h + s.kernel; ++i)
          for (int64_t j = w; j < w + s.kernel; ++j)
            if (i >= 0 && i < H && j >= 0 && j < W)
              window.push_back(x[static_cast<size_t>((plane * H + i) * W + j)]);
        y.push_back(reduce(window));
      }
  return y;
}

double maximum(const Values& v) { return *std::max_element(v.begin(), v.end()); }

double mean(const Values& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / double(v.size());
}

double rectified_maximum(const Values& v) { return std::max(maximum(v), 0.0); }

Op max_pool2d_op(std::string name, const Shape& x, Pool2dShape s,
                 Activation activation = Activation::none) {
  const auto reduce = activation == Activation::relu ? rectified_maximum : maximum;
  return {.name = std::move(name),
          .inputs = {x},
          .run = [=](const auto& in) { return max_pool2d(in[0], s, activation); },
          .reference = [=](const auto& in) { return pool_reference(in[0], x, s, reduce); },
          .in_16_bits = false};
}

Op avg_pool2d_op(std::string name, const Shape& x, Pool2dShape s) {
  return {.name = std::move(name),
          .inputs = {x},
          .run = [=](const auto& in) { return avg_pool2d(in[0], s); },
          .reference = [=](const auto& in) { return pool_reference(in[0], x, s, mean); },
          .depth = double(s.kernel * s.kernel) + 2};
}

Op global_avg_pool2d_op(std::string name, const Shape& x) {
  return {.name = std::move(name),
          .inputs = {x},
          .run = [](const auto& in) { return GlobalAvgPool2d{}(in[0]); },
          .reference =
              [=](const auto& in) {
                Values y;
                const int64_t P = x.numel(2, 4);
                for (auto plane = in[0].begin(); plane != in[0].end(); plane += P)
                  y.push_back(mean(Values(plane, plane + P)));
                return y;
              },
          .depth = double(x.numel(2, 4)) + 2};
}

}  // namespace

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
  REQUIRE_ERROR(avg_pool2d(x, {3, 2, 1}), "[avg_pool2d] padding 1: expected none");
}

TEST_CASE("max_pool2d keeps one byte per output", "[ops]") {
  const Tensor x = require_grad(Tensor::full({4, 4, 16, 16}, 1, DType::f32, Device::meta));
  const size_t before = ledger(Device::meta).current().total();
  const Tensor y = max_pool2d(x, {2});
  REQUIRE(ledger(Device::meta).current().total() - before ==
          y.bytes() + static_cast<size_t>(y.numel()));
}

}  // namespace accrue::test
