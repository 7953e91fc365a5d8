// Convolutions and batch norms of images [N, H, W, C].

#include <cmath>

#include "core/autograd.h"
#include "kernels/channels.h"
#include "kernels/concat.h"
#include "kernels/conv2d.h"
#include "kernels/losses.h"
#include "kernels/norm.h"
#include "kernels/rearrange.h"
#include "tests/support/activation.h"
#include "tests/support/catch.h"
#include "tests/support/convolution.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace channels_last_test {
namespace {

Shape last(const Shape& s) { return {s[0], s[2], s[3], s[1]}; }

// The values of images [N, C, H, W] in the order [N, H, W, C], or with `back` the other way.
Values moved(const Values& values, const Shape& s, bool back = false) {
  Values result(values.size());
  const auto [C, P] = std::pair{s[1], s.numel(2, 4)};
  for (int64_t i = 0; i < s.numel(); ++i) {
    const int64_t n = i / P / C, c = i / P % C, p = i % P, to = (n * P + p) * C + c;
    if (back) result[size_t(i)] = values[size_t(to)];
    else result[size_t(to)] = values[size_t(i)];
  }
  return result;
}

// The row of an op of images x, its first input, that are [N, H, W, C] now, as its result y is.
Op with_channels_last(Op op, const Shape& y) {
  const Shape x = op.inputs[0];
  op.inputs[0] = last(x);
  op.name += ", channels last";
  op.reference = [=, of_first = op.reference](const auto& in) {
    std::vector<Values> inputs = in;
    inputs[0] = moved(in[0], x, true);
    return moved(of_first(inputs), y);
  };
  return op;
}

struct ConvCase {
  std::string name;
  Shape x, w, y;
  Conv2dShape shape;
  bool bias = false;
  Activation activation = Activation::none;
};

Op conv2d_op(ConvCase k) {
  std::vector<Shape> inputs{k.x, k.w};
  if (k.bias) inputs.push_back({k.w[0]});
  k.shape.channels = Channels::last;
  Op op{.name = k.name,
        .inputs = inputs,
        .run =
            [=](const auto& in) {
              return conv2d(in[0], in[1], k.bias ? in[2] : Tensor(), k.shape, k.activation);
            },
        .reference =
            [=](const auto& in) {
              Values y(static_cast<size_t>(k.y.numel()));
              for_each_product(
                  k.x, k.w, k.y, k.shape.stride, k.shape.padding.before, k.shape.dilation,
                  [&](size_t x, size_t w, size_t out) { y[out] += in[0][x] * in[1][w]; },
                  k.shape.groups);
              if (k.bias) add_bias(y, in[2], k.y);
              for (double& v : y) v = activated(k.activation, v);
              return y;
            },
        .depth = double(k.w.numel(1, 4)) + 2,
        .roundings = 2,  // cuDNN's result, then the bias
        .parameters = {1, 2}};
  return with_channels_last(std::move(op), k.y);
}

}  // namespace

TEST_CASE("conv2d with channels last", "[ops]") {
  for (const ConvCase& k : std::vector<ConvCase>{
           {"3x3", {2, 3, 5, 6}, {4, 3, 3, 3}, {2, 4, 5, 6}, {.padding = 1}},
           {"3x3 + bias, vectors",
            {2, 8, 4, 3},
            {16, 8, 3, 3},
            {2, 16, 4, 3},
            {.padding = 1},
            true},
           {"1x1 + bias", {2, 8, 3, 4}, {5, 8, 1, 1}, {2, 5, 3, 4}, {}, true},
           {"1x1 stride 2", {2, 8, 5, 5}, {8, 8, 1, 1}, {2, 8, 3, 3}, {.stride = 2}},
           {"7x7 stride 2", {1, 3, 9, 9}, {8, 3, 7, 7}, {1, 8, 5, 5}, {.stride = 2, .padding = 3}},
           {"+ relu",
            {2, 2, 4, 4},
            {8, 2, 3, 3},
            {2, 8, 4, 4},
            {.padding = 1},
            true,
            Activation::relu},
           {"dilation 2", {2, 2, 7, 7}, {2, 2, 3, 3}, {2, 2, 7, 7}, {.padding = 2, .dilation = 2}},
           {"stride 2x1", {2, 3, 7, 6}, {4, 3, 3, 3}, {2, 4, 4, 6}, {{2, 1}, 1}},
           {"SAME, 5x5 stride 2",
            {2, 2, 6, 8},
            {3, 2, 5, 5},
            {2, 3, 3, 4},
            {.stride = 2, .padding = {1, 2}},
            true},
           {"padding before 1x0, after 0x2",
            {2, 2, 5, 6},
            {3, 2, 3, 3},
            {2, 3, 4, 6},
            {.padding = {{1, 0}, {0, 2}}}},
           {"2 groups",
            {3, 4, 5, 6},
            {6, 2, 3, 3},
            {3, 6, 5, 6},
            {.padding = 1, .groups = 2},
            true}})
    check_op(conv2d_op(k));
}

TEST_CASE("conv2d of parts with channels last is that of their concatenation", "[ops]") {
  const auto drawn = [](const Shape& shape, uint64_t seed) {
    return tensor_with(random_values(shape, seed), shape, DType::f32);
  };
  const Tensor a = drawn({2, 4, 5, 3}, 1), b = drawn({2, 4, 5, 2}, 2), w = drawn({4, 5, 3, 3}, 3);
  const Conv2dShape shape{.padding = 1, .channels = Channels::last};
  const NoGrad no_grad;
  REQUIRE(to_doubles(conv2d({a, b}, w, {}, shape)) ==
          to_doubles(conv2d(concat({a, b}, 3), w, {}, shape)));
}

// Weights, sums and results are whole numbers, so all ways round alike.
TEST_CASE("conv2d has the same bits with channels first and last", "[ops]") {
  const Shape x{6, 8, 7, 5}, w{16, 8, 3, 3};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto whole = [&](const Shape& shape, uint64_t seed) {
      Values values = random_values(shape, seed, 4);
      for (double& value : values) value = std::floor(value);
      return tensor_with(values, shape, dtype);
    };
    std::vector<Values> results[2];
    for (const bool is_last : {false, true}) {
      const Tensor images = require_grad(whole(x, 1)), drawn = whole(w, 2);
      // A parameter is float32; its gradient in 16 bits is a case of check_op().
      const Tensor filters = dtype == DType::f32 ? require_grad(drawn) : drawn;
      const Conv2dShape shape{.padding = 1, .channels = is_last ? Channels::last : Channels::first};
      for (int repeat = 0; repeat < 2; ++repeat) {  // written, then added to
        const Tensor y = conv2d(is_last ? channels_last(images) : images, filters, {}, shape);
        backward_of_sum(is_last ? channels_first(y) : y);
        for (const Tensor& result : {is_last ? channels_first(y) : y, grad(images)})
          results[is_last].push_back(to_doubles(result));
        if (dtype == DType::f32) results[is_last].push_back(to_doubles(grad(filters)));
      }
    }
    CAPTURE(name(dtype));
    REQUIRE(results[0] == results[1]);
  }
}

TEST_CASE("conv2d with channels last refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Conv2dShape shape{.channels = Channels::last};
  REQUIRE_ERROR(conv2d(ones({2, 5, 6}), ones({4, 6, 1, 1}), {}, shape),
                "expected x [N, H, W, C] and w [O, C, KH, KW]");
  if (plans_for_cuda(test_device()))
    REQUIRE_ERROR(conv2d(ones({2, 6, 5, 5}), ones({4, 6, 1, 1}), {}, shape),
                  "[conv2d] x [2, 6, 5, 5] and w [4, 6, 1, 1]: expected x [N, H, W, C]");
  const RunningStatistics running{ones({6}), ones({6})};
  REQUIRE_ERROR(batch_norm(ones({2, 5, 6}), {}, {}, running, NormMode::train, 1e-5,
                           Activation::none, Channels::last),
                "[batch_norm] x [2, 5, 6]: expected [N, H, W, C]");
}

// On cuda columns are read in vectors of 16 bytes if these divide the channels, and many rows are
// cut into pieces.
TEST_CASE("batch_norm with channels last", "[ops]") {
  for (const Shape& shape : {Shape{2, 8, 3, 2}, Shape{3, 5, 2, 2}, Shape{64, 16, 6, 6}})
    for (const Activation activation : {Activation::none, Activation::relu, Activation::tanh})
      for (const NormMode mode : {NormMode::train, NormMode::eval}) {
        CAPTURE(shape, name(activation), mode == NormMode::train);
        std::vector<Values> results[2];
        for (const bool is_last : {false, true}) {
          const auto drawn = [&](const Shape& of, uint64_t seed) {
            return tensor_with(random_values(of, seed), of, DType::f64);
          };
          const Tensor x = require_grad(drawn(shape, 1)),
                       gamma = require_grad(drawn({shape[1]}, 2)),
                       beta = require_grad(drawn({shape[1]}, 3));
          const RunningStatistics running{drawn({shape[1]}, 4),
                                          Tensor::full({shape[1]}, 2, DType::f64, test_device())};
          for (int repeat = 0; repeat < 2; ++repeat) {  // written, then added to
            const Tensor y =
                batch_norm(is_last ? channels_last(x) : x, gamma, beta, running, mode, 1e-5,
                           activation, is_last ? Channels::last : Channels::first);
            backward(mse_loss(is_last ? channels_first(y) : y, drawn(shape, 5)));
            for (const Tensor& result : {is_last ? channels_first(y) : y, grad(x), grad(gamma),
                                         grad(beta), running.mean, running.var})
              results[is_last].push_back(to_doubles(result));
          }
        }
        // As many roundings as there are terms in the two sums over a channel, at the most.
        const double roundings = 4 * double(shape.numel() / shape[1]) * 0x1p-53;
        for (size_t i = 0; i < results[0].size(); ++i) {
          double largest = 0;
          for (const double v : results[0][i]) largest = std::max(largest, std::abs(v));
          INFO("result " << i);
          REQUIRE(largest_difference(results[0][i], results[1][i]) <= roundings * largest);
        }
      }
}

}  // namespace channels_last_test
}  // namespace accrue::test
