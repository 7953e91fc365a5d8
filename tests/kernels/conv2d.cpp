// Convolutions of images [N, C, H, W], and the operands that all ops on images refuse.

#include "kernels/conv2d.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/autograd.h"
#include "core/cuda.h"
#include "core/half.h"
#include "core/random.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/convolutions.h"
#include "kernels/linear.h"
#include "kernels/losses.h"
#include "kernels/pool.h"
#include "kernels/upsample.h"
#include "tests/support/activation.h"
#include "tests/support/catch.h"
#include "tests/support/convolution.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

struct ConvCase {
  Shape x, w;
  Conv2dShape shape;
  bool bias = true;
  Activation activation = Activation::none;
};

// cuDNN rounds its result; adding the bias rounds it again.
constexpr double roundings = 2;

Op conv2d_op(std::string name, ConvCase k) {
  std::vector<Shape> inputs{k.x, k.w};
  if (k.bias) inputs.push_back({k.w[0]});
  const Conv2dShape& s = k.shape;
  const auto grid_size = [&](int dim, int64_t PerAxis::*at) {
    return (k.x[dim] + s.padding.before.*at + s.padding.after.*at -
            s.dilation.*at * (k.w[dim] - 1) - 1) /
               (s.stride.*at) +
           1;
  };
  const Shape y_shape{k.x[0], k.w[0], grid_size(2, &PerAxis::h), grid_size(3, &PerAxis::w)};
  return {.name = std::move(name),
          .inputs = inputs,
          .run =
              [=](const auto& in) {
                return conv2d(in[0], in[1], k.bias ? in[2] : Tensor(), k.shape, k.activation);
              },
          .reference =
              [=](const auto& in) {
                Values y(static_cast<size_t>(y_shape.numel()));
                for_each_product(
                    k.x, k.w, y_shape, k.shape.stride, k.shape.padding.before, k.shape.dilation,
                    [&](size_t x, size_t w, size_t out) { y[out] += in[0][x] * in[1][w]; },
                    k.shape.groups);
                if (k.bias) add_bias(y, in[2], y_shape);
                for (double& v : y) v = activated(k.activation, v);
                return y;
              },
          .depth = double(k.w.numel(1, 4)) + 2,
          .roundings = roundings,
          .parameters = {1, 2}};
}

// conv2d_op() with x in parts that have these numbers of channels.
Op conv2d_op_of_parts(const std::vector<int64_t>& channels, const ConvCase& k) {
  Op op = conv2d_op(fmt::format("in {} parts", channels.size()), k);
  const size_t K = channels.size();
  op.inputs.erase(op.inputs.begin());
  for (size_t i = 0; i < K; ++i)
    op.inputs.insert(op.inputs.begin() + int64_t(i), k.x.with(1, channels[i]));
  op.run = [=](const auto& in) {
    const std::vector<Tensor> parts(in.begin(), in.begin() + int64_t(K));
    return conv2d(parts, in[K], k.bias ? in[K + 1] : Tensor(), k.shape);
  };
  op.reference = [=, of_whole = op.reference](const auto& in) {
    const auto plane = size_t(k.x.numel(2, 4));
    std::vector<Values> whole(in.begin() + int64_t(K) - 1, in.end());
    whole[0].clear();
    for (size_t n = 0; n < size_t(k.x[0]); ++n)
      for (size_t i = 0; i < K; ++i) {
        const size_t size = size_t(channels[i]) * plane;
        whole[0].insert(whole[0].end(), in[i].begin() + int64_t(n * size),
                        in[i].begin() + int64_t((n + 1) * size));
      }
    return of_whole(whole);
  };
  op.roundings = roundings + double(K) - 1;
  op.parameters.clear();
  for (size_t i = K; i < op.inputs.size(); ++i) op.parameters.push_back(i);
  return op;
}

Op conv_transpose2d_op(std::string name, const Shape& x, const Shape& w, ConvTranspose2dShape shape,
                       const Shape& y_shape) {
  return {
      .name = std::move(name),
      .inputs = {x, w, {w[1] * shape.groups}},
      .run = [=](const auto& in) { return conv_transpose2d(in[0], in[1], in[2], shape); },
      .reference =
          [=](const auto& in) {
            Values y(static_cast<size_t>(y_shape.numel()));
            for_each_product(
                y_shape, w, x, shape.stride, shape.padding.before, shape.dilation,
                [&](size_t out, size_t tap, size_t cell) { y[out] += in[0][cell] * in[1][tap]; },
                shape.groups);
            add_bias(y, in[2], y_shape);
            return y;
          },
      .depth = double(w[0] * w[2] * w[3]) + 2,
      .roundings = roundings,
      .parameters = {1, 2}};
}

}  // namespace

TEST_CASE("conv2d", "[ops]") {
  check_op(conv2d_op("3x3 padding 1", {{3, 2, 5, 6}, {4, 2, 3, 3}, {.padding = 1}}));
  check_op(conv2d_op("without bias", {{2, 1, 4, 4}, {3, 1, 3, 3}, {}, false}));
  for (const Activation activation : all_activations)
    check_op(conv2d_op(fmt::format("+ {}", name(activation)),
                       {{2, 2, 4, 4}, {3, 2, 3, 3}, {.padding = 1}, true, activation}));
  check_op(conv2d_op("1x1", {{2, 5, 3, 3}, {4, 5, 1, 1}, {}}));
  check_op(conv2d_op("stride 2", {{2, 2, 7, 6}, {3, 2, 3, 2}, {.stride = 2, .padding = 1}}));
  check_op(conv2d_op("stride 3 leaves pixels unseen", {{1, 1, 8, 8}, {2, 1, 2, 2}, {.stride = 3}}));
  check_op(conv2d_op("dilation 2", {{2, 2, 7, 7}, {2, 2, 3, 3}, {.padding = 2, .dilation = 2}}));
  check_op(conv2d_op("more padding than kernel", {{1, 1, 3, 3}, {2, 1, 2, 2}, {.padding = 3}}));
  check_op(conv2d_op("TensorFlow's SAME, 5x5 stride 2",
                     {{2, 2, 6, 8}, {3, 2, 5, 5}, {.stride = 2, .padding = {1, 2}}}));
  check_op(conv2d_op("padding before, pixels left out after",
                     {{2, 1, 5, 36}, {2, 1, 2, 2}, {.stride = 4, .padding = {2, 0}}}));
}

// Rows and columns that differ in stride, padding, dilation and kernel.
TEST_CASE("conv2d with axes of its own", "[ops]") {
  check_op(conv2d_op("1x3 of a sequence", {{2, 3, 1, 9}, {4, 3, 1, 3}, {.padding = {{0, 1}}}}));
  check_op(conv2d_op("1x5 stride 1x2, dilation 1x2 of a sequence",
                     {{2, 2, 1, 17}, {3, 2, 1, 5}, {{1, 2}, {{0, 3}}, {1, 2}}}));
  check_op(conv2d_op("stride 2x1", {{2, 3, 7, 6}, {4, 3, 3, 3}, {{2, 1}, 1}}));
  check_op(conv2d_op("stride 1x3, padding 0x2", {{1, 2, 5, 9}, {3, 2, 2, 3}, {{1, 3}, {{0, 2}}}}));
  check_op(conv2d_op("dilation 2x1", {{2, 2, 7, 5}, {2, 2, 3, 3}, {1, {{2, 1}}, {2, 1}}}));
  check_op(conv2d_op("padding before 1x0, after 0x2",
                     {{2, 2, 5, 6}, {3, 2, 3, 3}, {.padding = {{1, 0}, {0, 2}}}}));
}

TEST_CASE("conv2d with groups", "[ops]") {
  check_op(conv2d_op("2 groups", {{3, 4, 5, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}}));
  for (const Activation activation : {Activation::relu, Activation::tanh})
    check_op(conv2d_op(
        fmt::format("3 groups + {}", name(activation)),
        {{2, 6, 4, 5}, {3, 2, 3, 2}, {.stride = 2, .padding = 1, .groups = 3}, true, activation}));
  check_op(conv2d_op("2 groups, axes of their own, without bias",
                     {{2, 4, 7, 9}, {4, 2, 3, 2}, {{2, 1}, {{1, 0}}, {1, 2}, 2}, false}));
  check_op(conv2d_op("2 groups 1x1", {{2, 6, 3, 3}, {4, 3, 1, 1}, {.groups = 2}}));
  check_op(conv2d_op("2 groups of small images",
                     {{5, 20, 2, 2}, {20, 10, 3, 3}, {.padding = 1, .groups = 2}}));
  check_op(conv2d_op("2 groups, padding before only",
                     {{2, 4, 5, 6}, {4, 2, 3, 3}, {.padding = {1, 0}, .groups = 2}}));
}

TEST_CASE("depthwise conv2d", "[ops]") {
  for (const int64_t K : {1, 3, 5, 7})
    for (const int64_t stride : {1, 2})
      check_op(conv2d_op(
          fmt::format("{}x{} stride {}", K, K, stride),
          {{2, 3, 9, 8}, {3, 1, K, K}, {.stride = stride, .padding = K / 2, .groups = 3}}));
  check_op(conv2d_op("multiplier 2", {{2, 3, 6, 5}, {6, 1, 3, 3}, {.padding = 1, .groups = 3}}));
  check_op(conv2d_op("multiplier 3, stride 2, without bias",
                     {{2, 2, 7, 18}, {6, 1, 3, 3}, {.stride = 2, .groups = 2}, false}));
  check_op(conv2d_op("stride 3 leaves pixels unseen",
                     {{1, 2, 8, 20}, {2, 1, 2, 2}, {.stride = 3, .groups = 2}}));
  check_op(conv2d_op("dilation 2", {{2, 2, 9, 7}, {2, 1, 3, 3}, {1, 2, 2, 2}}));
  check_op(conv2d_op("dilation 2, stride 2", {{2, 2, 9, 7}, {2, 1, 3, 3}, {2, 2, 2, 2}}));
  check_op(conv2d_op("dilation 3x2, stride 2x3",
                     {{1, 2, 12, 19}, {2, 1, 3, 3}, {{2, 3}, {{1, 2}}, {3, 2}, 2}}));
  check_op(conv2d_op("3x3 stride 2x1", {{2, 2, 7, 18}, {2, 1, 3, 3}, {{2, 1}, 1, 1, 2}}));
  check_op(conv2d_op("1x5 of a sequence", {{2, 3, 1, 21}, {3, 1, 1, 5}, {1, {{0, 2}}, 1, 3}}));
  check_op(conv2d_op("more padding than kernel",
                     {{1, 2, 3, 3}, {2, 1, 2, 2}, {.padding = 3, .groups = 2}}));
  check_op(conv2d_op("5x5 stride 2 of 1x2", {{2, 2, 1, 2}, {2, 1, 5, 5}, {2, 2, 1, 2}}));
  check_op(conv2d_op("TensorFlow's SAME, 5x5 stride 2",
                     {{2, 2, 6, 8}, {2, 1, 5, 5}, {2, {1, 2}, 1, 2}}));
  check_op(conv2d_op("two vectors wide + relu",
                     {{1, 2, 6, 37}, {2, 1, 3, 3}, {1, 1, 1, 2}, true, Activation::relu}));
}

TEST_CASE("conv2d of parts is that of their concatenation", "[ops]") {
  check_op(conv2d_op_of_parts({2, 3}, {{2, 5, 5, 6}, {4, 5, 3, 3}, {.padding = 1}}));
  check_op(conv2d_op_of_parts({1, 2, 2}, {{2, 5, 4, 4}, {3, 5, 3, 3}, {}, false}));
  check_op(conv2d_op_of_parts({4, 4}, {{1, 8, 9, 7}, {8, 8, 3, 2}, {.stride = 2, .padding = 1}}));
  check_op(conv2d_op_of_parts({3, 1}, {{2, 4, 2, 2}, {9, 4, 3, 3}, {.padding = 1}}));
  check_op(conv2d_op_of_parts({3, 1}, {{2, 4, 4, 3}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}}));
  const Tensor a = ones({1, 2, 4, 4}), b = ones({1, 2, 4, 5}), w = ones({1, 4, 3, 3});
  REQUIRE_ERROR(conv2d({a, b}, w, {}, {}),
                "part 1 is [1, 2, 4, 5], after parts of [1, 2, 4, 4]: expected the same sizes");
  REQUIRE_ERROR(conv2d({a, a, a}, w, {}, {}), "x [1, 6, 4, 4] and w [1, 4, 3, 3]");
  REQUIRE_ERROR(conv2d(std::vector<Tensor>{}, w, {}, {}), "there is no tensor");
}

// Kernels as large as the image or larger, as at the bottom of a deep U-Net: their outer taps see
// nothing but padding.
TEST_CASE("conv2d of images smaller than its kernel", "[ops]") {
  const Conv2dShape halving{.stride = 2, .padding = 1};
  for (const int64_t H : {2, 3, 6})
    check_op(
        conv2d_op(fmt::format("4x4 stride 2 of {}", H), {{2, 2, H, H}, {2, 2, 4, 4}, halving}));
  for (const int64_t stride : {1, 2})
    for (const int64_t H : {1, 4})
      check_op(conv2d_op(fmt::format("5x5 stride {} of {}", stride, H),
                         {{2, 2, H, H}, {2, 2, 5, 5}, {.stride = stride, .padding = 2}}));
  check_op(conv2d_op("3x3 of 1", {{2, 3, 1, 1}, {2, 3, 3, 3}, {.padding = 1}}));
}

TEST_CASE("the bias gradient of a convolution over several blocks", "[ops]") {
  constexpr int64_t N = 90, P = 100;
  const Tensor x = Tensor::full({N, 1, 10, 10}, 0, DType::f64, test_device());
  const Tensor w = Tensor::full({2, 1, 1, 1}, 1, DType::f64, test_device());
  const Tensor b = require_grad(Tensor::from(Values{1, -3}, {2}, test_device()));
  for (int repeat = 1; repeat <= 2; ++repeat) {  // written, then added to
    set_thread_order(repeat);
    // The gradient of the mean of y^2 is 2 b / 2 for each channel, with at most as many roundings
    // as there are elements.
    const Tensor y = conv2d(x, w, b, {});
    backward(mse_loss(y, Tensor::full(y.shape(), 0, DType::f64, test_device())));
    const Values db = to_doubles(grad(b));
    REQUIRE(std::abs(db[0] - repeat) <= repeat * N * P * 0x1p-53);
    REQUIRE(std::abs(db[1] + 3 * repeat) <= 3 * repeat * N * P * 0x1p-53);
  }
}

TEST_CASE("conv_transpose2d", "[ops]") {
  check_op(
      conv_transpose2d_op("2x2 stride 2", {2, 3, 3, 2}, {3, 2, 2, 2}, {.stride = 2}, {2, 2, 6, 4}));
  check_op(conv_transpose2d_op("3x3 padding 1", {2, 3, 4, 4}, {3, 2, 3, 3}, {.padding = 1},
                               {2, 2, 4, 4}));
  check_op(conv_transpose2d_op("output_padding", {2, 2, 3, 4}, {2, 3, 3, 3},
                               {.stride = 2, .padding = 1, .output_padding = 1}, {2, 3, 6, 8}));
  check_op(conv_transpose2d_op("TensorFlow's SAME, 5x5 stride 2", {2, 2, 3, 4}, {2, 3, 5, 5},
                               {.stride = 2, .padding = {1, 2}}, {2, 3, 6, 8}));
  check_op(conv_transpose2d_op("4x4 stride 2 of 1", {2, 3, 1, 1}, {3, 2, 4, 4},
                               {.stride = 2, .padding = 1}, {2, 2, 2, 2}));
}

TEST_CASE("conv_transpose2d with groups and axes of its own", "[ops]") {
  check_op(conv_transpose2d_op("2 groups", {2, 4, 3, 4}, {4, 3, 3, 3},
                               {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2},
                               {2, 6, 6, 8}));
  check_op(conv_transpose2d_op("depthwise", {2, 3, 4, 5}, {3, 1, 4, 4},
                               {.stride = 2, .padding = 1, .groups = 3}, {2, 3, 8, 10}));
  check_op(conv_transpose2d_op("stride 2x1, padding 0x1", {2, 3, 3, 4}, {3, 2, 2, 3},
                               {{2, 1}, {{0, 1}}}, {2, 2, 6, 4}));
  check_op(conv_transpose2d_op("dilation 2", {2, 2, 3, 3}, {2, 2, 3, 3},
                               {.stride = 1, .dilation = 2}, {2, 2, 7, 7}));
  check_op(conv_transpose2d_op(
      "dilation 2 of 2 groups, output padding 1", {2, 4, 3, 3}, {4, 1, 3, 3},
      {.padding = 1, .output_padding = 1, .groups = 2, .dilation = 2}, {2, 2, 6, 6}));
  check_op(conv_transpose2d_op("1x4 stride 1x2 of a sequence", {2, 3, 1, 5}, {3, 2, 1, 4},
                               {{1, 2}, {{0, 1}}}, {2, 2, 1, 10}));
}

// Convolutions large enough to be cut into bands, and into slices of channels. They are bilinear,
// so sum(dy * y) = sum(dx * x) = sum(dw * w): with y right, that holds for random operands only if
// both gradients are right.
template <class Convolve>
void check_bilinear(const Shape& x_shape, const Shape& w_shape, Convolve convolve) {
  RandomStream random(3);
  const auto make = [&](const Shape& shape) {
    Values values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = random.uniform(-1, 1);
    return Tensor::from(values, shape, test_device());
  };
  const auto dot = [](const Tensor& a, const Tensor& b) {
    const Values u = to_doubles(a), v = to_doubles(b);
    return std::inner_product(u.begin(), u.end(), v.begin(), 0.0);
  };
  const Tensor x = require_grad(make(x_shape)), w = require_grad(make(w_shape));
  const Tensor y = convolve(x, w), dy = make(y.shape());
  const double expected = dot(dy, y);
  backward(matmul(y.reshape({1, y.numel()}), dy.reshape({y.numel(), 1})));
  // Every product is at most 1. The number of its roundings within a sum is less than the number of
  // all elements.
  const auto products = double(y.numel() * w_shape.numel(1, 4));
  const double bound = double(x.numel() + y.numel() + w.numel()) * products * 0x1p-53;
  REQUIRE(std::abs(dot(grad(x), x) - expected) <= bound);
  REQUIRE(std::abs(dot(grad(w), w) - expected) <= bound);
}

TEST_CASE("large convolutions", "[ops]") {
  struct Case {
    Shape x, w;
    Conv2dShape shape;
  };
  for (const Case& k : {Case{{2, 40, 50, 60}, {6, 40, 3, 3}, {.padding = 1}},
                        Case{{1, 40, 50, 60}, {20, 40, 5, 5}, {.stride = 2, .padding = {1, 2}}},
                        Case{{3, 260, 4, 4}, {120, 260, 3, 3}, {.padding = 1}},
                        Case{{3, 64, 14, 14}, {32, 64, 3, 3}, {.padding = 1}},
                        Case{{1, 3, 300, 20}, {2, 3, 3, 3}, {.stride = 3, .dilation = 2}},
                        Case{{2, 36, 40, 50}, {24, 18, 3, 3}, {.padding = 1, .groups = 2}},
                        Case{{2, 12, 60, 75}, {12, 1, 3, 3}, {.padding = 1, .groups = 12}},
                        Case{{1, 3, 301, 260}, {6, 1, 7, 7}, {2, 3, 1, 3}}}) {
    const Op op = conv2d_op("", {k.x, k.w, k.shape, false});
    check_bilinear(k.x, k.w, [&](const Tensor& x, const Tensor& w) {
      const Tensor y = op.run({x, w});
      const Values expected = op.reference({to_doubles(x), to_doubles(w)}), actual = to_doubles(y);
      for (size_t i = 0; i < expected.size(); ++i)
        if (!(std::abs(actual[i] - expected[i]) <= op.depth * op.depth * 0x1p-53))
          FAIL("at " << i << ": " << actual[i] << ", expected " << expected[i]);
      return y;
    });
  }
}

// A larger micro-batch has chunks for more slots of the loops, up to a limit; each slot has its own
// scratch.
TEST_CASE("a convolution's scratch grows with the micro-batch up to a bound", "[ops]") {
  const auto peak_of = [](int64_t N) {
    const auto make = [](const Shape& shape) {
      return Tensor::full(shape, 1, DType::f32, Device::meta);
    };
    ledger(Device::meta).reset_peak();
    conv2d(make({N, 16, 32, 32}), make({32, 16, 3, 3}), Tensor(), {.padding = 1});
    return ledger(Device::meta).peak()[Category::workspace];
  };
  REQUIRE(peak_of(128) <= 8 * peak_of(1));
  REQUIRE(peak_of(256) == peak_of(128));
  REQUIRE(peak_of(256) < (3 << 20));
}

TEST_CASE("a convolution's scratch in bfloat16 is at most that in float16", "[ops]") {
  const auto peak_of = [](const Shape& x, const Shape& w, Conv2dShape shape, DType dtype) {
    const auto make = [&](const Shape& of) { return Tensor::full(of, 1, dtype, Device::meta); };
    ledger(Device::meta).reset_peak();
    const Tensor image = require_grad(make(x)), weights = require_grad(make(w));
    const Tensor y = conv2d(image, weights, Tensor(), shape);
    backward(matmul(y.reshape({1, y.numel()}), make({y.numel(), 1})));
    return ledger(Device::meta).peak()[Category::workspace];
  };
  for (const int64_t H : {1, 4, 7, 32, 61})
    for (const int64_t C : {1, 3, 16, 67, 256})
      for (const int64_t stride : {1, 2}) {
        CAPTURE(H, C, stride);
        const Conv2dShape shape{.stride = stride, .padding = 1};
        const Shape x{8, C, H, H}, w{2 * C, C, 3, 3};
        REQUIRE(peak_of(x, w, shape, DType::bf16) <= peak_of(x, w, shape, DType::f16));
      }
}

TEST_CASE("a convolution's scratch on cuda is known from shapes", "[ops]") {
  const auto peak_of = [](int64_t N, Padding padding, DType dtype = DType::f32) {
    const auto make = [&](const Shape& shape) {
      return Tensor::full(shape, 1, dtype, Device::meta_cuda);
    };
    Ledger& memory = ledger(Device::meta_cuda);
    memory.reset_peak();
    conv2d(make({N, 4, 32, 32}), make({16, 4, 3, 3}), Tensor(), {.padding = padding});
    return memory.peak()[Category::workspace];
  };
  REQUIRE(peak_of(1, 1) == 4 << 20);
  // The scratch is as large as the larger one of image and grid.
  REQUIRE(peak_of(128, 1) == 128 * 16 * 32 * 32 * sizeof(float));
  // If the padding differs, a copy of the image, padded on both sides, comes on top.
  REQUIRE(peak_of(1, {0, 2}) == (4 << 20) + 4 * 34 * 34 * sizeof(float) + 192);
  // In 16 bits tensor cores need image and grid with channels last, in multiples of eight, and the
  // weights twice.
  for (const DType dtype : {DType::f16, DType::bf16})
    REQUIRE(peak_of(128, 1, dtype) ==
            2 * (128 * 8 * 32 * 32 + 128 * 16 * 32 * 32 + 2 * 16 * 8 * 3 * 3));
  cuda::allow_tf32(true);
  const size_t in_tf32 = peak_of(128, 1);
  cuda::allow_tf32(false);
  REQUIRE(in_tf32 == 4 * (128 * 8 * 32 * 32 + 128 * 16 * 32 * 32 + 2 * 16 * 8 * 3 * 3));
}

// The parts of the sum are in float32. There are as many as blocks run at once, but only two of a
// large sum.
TEST_CASE("the scratch of a weight gradient on cuda has room for its split sum", "[ops]") {
  const auto peak_of = [](DType dtype, int64_t channels, int64_t N = 64) {
    const auto make = [&](const Shape& shape) {
      return Tensor::full(shape, 1, dtype, Device::meta_cuda);
    };
    const Tensor x = make({N, channels, 16, 16});
    const Tensor w = require_grad(make({channels, channels, 1, 1}));
    const Tensor y = conv2d(x, w, Tensor(), {});
    Ledger& memory = ledger(Device::meta_cuda);
    memory.reset_peak();
    backward(matmul(y.reshape({1, y.numel()}), make({y.numel(), 1})));
    return memory.peak()[Category::workspace];
  };
  const auto operands = [](size_t C) { return 2 * (2 * 64 * C * 16 * 16 + 2 * C * C); };
  REQUIRE(peak_of(DType::bf16, 64) == operands(64) + 264 * 64 * 64 * 4 + 2 * 64 * 64);
  REQUIRE(peak_of(DType::bf16, 2048) == operands(2048) + 2 * 2048 * 2048 * 4 + 2 * 2048 * 2048);
  // Without tensor cores there is room for copies of x and dy, in float64 for one of them.
  REQUIRE(peak_of(DType::f32, 64) == 2 * 64 * 64 * 16 * 16 * sizeof(float));
  REQUIRE(peak_of(DType::f64, 64) == 64 * 64 * 16 * 16 * sizeof(double));
  REQUIRE(peak_of(DType::f32, 64, 1) == 4 << 20);
}

TEST_CASE("a convolution of images that are too large for cuDNN is refused from shapes", "[ops]") {
  const auto convolve = [](int64_t N, int64_t H) {
    const auto make = [&](const Shape& shape) {
      return Tensor::full(shape, 1, DType::f16, Device::meta_cuda);
    };
    conv2d(make({N, 1 << 8, H, 1 << 12}), make({1, 1 << 8, 1, 1}), Tensor(), {});
  };
  convolve(3, (1 << 11) - 1);
  REQUIRE_ERROR(convolve(1, 1 << 11), "fewer than 2^31 elements, and one of these has 2147483648");
}

// The numbers of channels suit tensor cores or do not.
TEST_CASE("a convolution of small integers is exact", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const int64_t C : {3, 8}) {
      DYNAMIC_SECTION(name(dtype) << ", channels " << C) {
        const auto make = [&](const Shape& shape) {
          return Tensor::full(shape, 1, dtype, test_device());
        };
        const Tensor x = require_grad(make({1, C, 4, 4}));
        const Tensor w = require_grad(Tensor::full({C, C, 3, 3}, 1, wide(dtype), test_device()));
        w.variable()->copy = make(w.shape());
        const Tensor y = conv2d(x, w, Tensor(), {});
        REQUIRE(to_doubles(y) == Values(static_cast<size_t>(y.numel()), double(9 * C)));
        backward(conv2d(y, make({1, C, 2, 2}), Tensor(), {.stride = 2}));
        REQUIRE(to_doubles(grad(w)) == Values(static_cast<size_t>(w.numel()), 4));
        REQUIRE(to_doubles(grad(x))[0] == double(C));
      }
    }
}

// 1 + 2^-12 rounds to 1 in TF32.
TEST_CASE("float32 convolutions are TF32's only where that is allowed", "[ops]") {
  if (test_device() != Device::cuda) return;
  const auto convolve = [] {
    const Tensor x = Tensor::full({1, 8, 4, 4}, 1 + 0x1p-12, DType::f32, test_device());
    return to_doubles(conv2d(x, ones({8, 8, 1, 1}), Tensor(), {}))[0];
  };
  REQUIRE(convolve() == 8 + 0x1p-9);
  cuda::allow_tf32(true);
  const double y = convolve();
  cuda::allow_tf32(false);
  REQUIRE(std::abs(y - 8) <= 0x1p-9);
  if (on_runner()) REQUIRE(y == 8);
}

// Tensors of 2^31 elements are computed in the same way.
TEST_CASE("a convolution of more images than cuDNN takes is computed in parts", "[ops]") {
  const TensorLimit limit(2 * 2 * 5 * 6);
  check_op(conv2d_op("5 images, 2 at once", {{5, 2, 5, 6}, {2, 2, 3, 3}, {.padding = 1}}));
}

// The workspace has no room for aligned copies of both operands.
TEST_CASE("a convolution of large operands that start between 16 bytes", "[ops]") {
  constexpr int64_t N = 2, C = 32, H = 192, O = 4;
  const auto check = [&]<class T>(T) {
    CAPTURE(name(dtype_of<T>()));
    std::vector<T> values;
    for (int64_t i = 0; i <= N * C * H * H; ++i) values.push_back(T(float(i % 7)));
    const auto behind_first = [](const std::vector<T>& all, const Shape& shape) {
      const Tensor whole = Tensor::from(all, {static_cast<int64_t>(all.size())}, test_device());
      return whole.slice(1, whole.numel()).reshape(shape);
    };
    const Tensor x = behind_first(values, {N, C, H, H});
    const Tensor w = behind_first(std::vector<T>(O * C + 1, T(1)), {O, C, 1, 1});
    const Values y = to_doubles(conv2d(x, w, Tensor(), {}));
    Values expected(y.size());
    for (size_t n = 0, i = 1; n < N; ++n)
      for (size_t c = 0; c < C; ++c)
        for (size_t p = 0; p < H * H; ++p, ++i)
          for (size_t o = 0; o < O; ++o) expected[(n * O + o) * H * H + p] += double(values[i]);
    REQUIRE(y == expected);
  };
  check(float{});
  check(BFloat16{});
}

// Gradients of few and of many weights, gradients in early layers, and TF32.
TEST_CASE("a convolution on tensor cores has room for what they need", "[ops]") {
  if (test_device() != Device::cuda) return;
  struct Case {
    DType dtype;
    int64_t N;
    ConvGeometry geometry;
  };
  for (const Case& k : {Case{DType::bf16, 1, {128, 48, 48, 128, 48, 48, 1, 1, 1, 0, 1}},
                        Case{DType::f16, 1, {512, 7, 7, 512, 7, 7, 3, 3, 1, 1, 1}},
                        Case{DType::bf16, 4, {4, 112, 112, 64, 56, 56, 7, 7, 2, 3, 1}},
                        Case{DType::f32, 1, {8, 260, 260, 8, 260, 260, 1, 1, 1, 0, 1}}})
    for (const auto product : {ConvolutionProduct::forward, ConvolutionProduct::backward_data,
                               ConvolutionProduct::backward_filter}) {
      CAPTURE(name(k.dtype), k.geometry.C, name(product));
      cuda::allow_tf32(true);
      const ConvolutionChoice choice = choice_of({product, k.geometry, k.N, k.dtype});
      cuda::allow_tf32(false);
      REQUIRE(choice.parts == 1);
      REQUIRE(choice.workspace_bytes <= choice.scratch_bytes);
      if (on_runner()) REQUIRE(choice.math == "TENSOR_OP_MATH");
    }
}

TEST_CASE("a trace notes the convolutions that are computed or predicted", "[ops]") {
  for (const Device device : {test_device(), Device::meta, Device::meta_cuda}) {
    const auto make = [&](const Shape& shape) {
      return Tensor::full(shape, 1, DType::f32, device);
    };
    const Tensor x = require_grad(make({1, 3, 5, 5})), w = require_grad(make({4, 3, 3, 3}));
    const ConvolutionTrace trace;
    for (int i = 0; i < 2; ++i) backward(conv2d(conv2d(x, w, {}, {}), make({1, 4, 3, 3}), {}, {}));
    std::vector<std::string> noted;
    for (const auto& [c, count] : trace.entries())
      noted.push_back(fmt::format("{} {}x of {}x{}", name(c.product), count, c.N, c.geometry.C));
    REQUIRE(noted == std::vector<std::string>{
                         "forward 2x of 1x3", "forward 2x of 1x4", "backward data 2x of 1x4",
                         "backward filter 2x of 1x3", "backward data 2x of 1x3"});
  }
}

TEST_CASE("a convolution that cuDNN cannot compute at all is refused", "[ops]") {
  if (!on_runner()) return;
  const TensorLimit limit(74);
  const auto convolve = [] { conv2d(ones({2, 3, 5, 5}), ones({4, 3, 3, 3}), Tensor(), {}); };
  REQUIRE_ERROR(convolve(), "no deterministic algorithm for an image [3, 5, 5] and weights [4, 3");
}

TEST_CASE("image ops refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({2, 3, 5, 5});
  REQUIRE_ERROR(conv2d(x, ones({4, 2, 3, 3}), Tensor(), {}), "x [2, 3, 5, 5] and w [4, 2, 3, 3]");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), ones({3}), {}), "expected b [4]");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 7, 3}), Tensor(), {}), "does not fit into x");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), Tensor(), {.stride = 0}), "stride 0");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), Tensor(), {.stride = {1, 0}}), "stride 1x0");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), Tensor(), {.dilation = {1, 3}}), "dilation 1x3");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), Tensor(), {.groups = 3}),
                "w [4, 3, 3, 3] with groups 3: expected x [N, C, H, W] and w [O, C / groups");
  REQUIRE_ERROR(conv2d(x, ones({4, 1, 3, 3}), Tensor(), {.groups = 3}), "groups to divide O");
  REQUIRE_ERROR(conv2d(x, ones({4, 3, 3, 3}), Tensor(), {.groups = 0}), "groups 0");
  REQUIRE_ERROR(conv_transpose2d(x, ones({3, 4, 3, 3}), Tensor(), {.groups = 2}), "groups 2");
  REQUIRE_ERROR(conv_transpose2d(x, ones({3, 4, 3, 3}), ones({4}), {.groups = 3}),
                "expected b [12]");
  REQUIRE_ERROR(conv_transpose2d(x, ones({4, 3, 3, 3}), Tensor(), {}), "and w [4, 3, 3, 3]");
  REQUIRE_ERROR(conv_transpose2d(x, ones({3, 4, 3, 3}), ones({3}), {}), "expected b [4]");
  REQUIRE_ERROR(conv_transpose2d(x, ones({3, 4, 3, 3}), Tensor(), {.output_padding = 1}),
                "output_padding 1");
  REQUIRE_ERROR(conv_transpose2d(x, ones({3, 4, 1, 1}), Tensor(), {.padding = 3}), "leave nothing");
  REQUIRE_ERROR(max_pool2d(x, {6}), "kernel 6");
  REQUIRE_ERROR(max_pool2d(ones({1, 1, 20, 20}), {17}), "kernel 17");
  REQUIRE_ERROR(avg_pool2d(ones({2, 3, 5}), {2}), "x [2, 3, 5]");
  REQUIRE_ERROR(upsample_nearest(x, 0), "factor 0");
}

}  // namespace accrue::test
