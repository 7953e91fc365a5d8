// Layers with arguments that PyTorch's layers have, too, compared with these.

#include <cmath>

#include "core/inside.h"
#include "kernels/dropout.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Values waves(int64_t n, double phase) {
  Values values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::sin(1.37 * double(i) + phase));
  return values;
}

// A sum over elements in which each counts otherwise.
double digest(const Tensor& x) {
  const Values values = to_doubles(x), counts = waves(x.numel(), 0.5);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * counts[i];
  return sum;
}

// The digests of a layer's answer in float64, of the gradients of x and its parameters, and of its
// buffers.
Values digests(Layer& layer, const Shape& shape, const Pass& pass = {}) {
  const Parameters parameters = place(layer, DType::f64, test_device(), 1);
  layer.visit_parameters([](const std::string&, Parameter& p) {
    p.tensor.copy_from(tensor_with(waves(p.tensor.numel(), 2), p.shape, DType::f64));
  });
  parameters.zero_grad();
  const Tensor x = require_grad(tensor_with(waves(shape.numel(), 1), shape, DType::f64));
  const Tensor y = layer(x, pass);
  backward_from(y, waves(y.numel(), 3));
  Values all{digest(y), digest(grad(x))};
  layer.visit_parameters(
      [&](const std::string&, Parameter& p) { all.push_back(digest(grad(p.tensor))); });
  layer.visit_buffers([&](const std::string&, Buffer& b) { all.push_back(digest(b.tensor)); });
  return all;
}

// Sums of some hundred terms near 1 at most.
void require_digests(Layer& layer, const Shape& shape, const Values& expected,
                     const Pass& pass = {}) {
  INFO(layer.describe() << " of " << to_string(shape));
  const Values actual = digests(layer, shape, pass);
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO("digest " << i);
    REQUIRE(actual[i] == Approx(expected[i]).epsilon(0).margin(1e-11));
  }
}

}  // namespace

// Each number in this case is PyTorch's, in float64.
TEST_CASE("layers do what PyTorch's do for the same arguments", "[layers]") {
  const auto judge = [](Layer&& layer, const Shape& shape, const Values& expected) {
    require_digests(layer, shape, expected);
  };
  judge(BatchNorm(3, 0.25, 0.3), {4, 3, 2, 2},
        {-2.4607684941732, 1.4974287112879, -5.2516676460658, -0.69757098963975, 0.013667074610516,
         1.1505334487626});
  judge(BatchNorm(3, 1e-5, 0.01, Affine::none), {5, 3},
        {9.1720649268649, -4.1444662414539, 0.0012303571653183, 1.3310690424509});
  judge(BatchNorm(4, 1e-3, 1), {2, 4, 3},
        {-1.3522777045135, 1.693452702575, -1.6889827189997, 0.67036379821272, -0.19497001064822,
         0.25995777752225});
  judge(LayerNorm(4, 0.5), {3, 2, 4},
        {-3.9643426059877, 0.6392360729137, -0.98622736109077, 3.5018965323035});
  judge(LayerNorm(Shape{3, 4}, 0.1), {2, 3, 4},
        {-3.4994681031088, 0.12727619960585, -0.48439939789809, 1.1896955989283});
  judge(LayerNorm(Shape{2, 3, 2}, 1e-5, Affine::scale), {2, 2, 3, 2},
        {0.64079560089065, 0.29986433869031, -0.52959764923015});
  judge(LayerNorm(4, 1e-5, Affine::none), {2, 4}, {4.7651328792114, -2.1191906896977});
  judge(GroupNorm(2, 4, Activation::none, 0.3), {2, 4, 3},
        {-0.89668832433363, 1.8885811098754, -1.2955704133375, 0.67036379821272});
  judge(GroupNorm(2, 4, Activation::relu, 0.3, Affine::none), {2, 4, 3},
        {5.7951026437139, -3.4855252165775});
  judge(InstanceNorm(3, 0.2, Affine::scale_and_shift), {2, 3, 2, 2},
        {0.20909719687245, 1.2441940039887, -2.4474298302432, -0.13205811277542});
  judge(InstanceNorm(3, 0.2), {2, 3, 2, 2}, {12.252767443209, -7.2434916864366});
  judge(Linear(4, 3), {2, 3, 4},
        {3.9410400729898, -3.4038323719198, 1.5425445877717, -0.31133963720648});
  judge(Linear(4, 3), {3, 1, 4},
        {2.9238556634102, -2.2681656504308, 3.8580432642502, -0.15555954178977});
  judge(Upsample({.H = 5, .W = 3, .mode = ResizeMode::bicubic}), {2, 1, 3, 4},
        {-1.017084841436, 1.2692710810551});
  judge(Upsample({.rows = 2,
                  .columns = 1.5,
                  .mode = ResizeMode::bilinear,
                  .coordinates = Coordinates::align_corners}),
        {2, 1, 3, 4}, {0.92850662566562, -1.0416347825862});
  judge(Upsample({.rows = 1.7, .columns = 0.6, .mode = ResizeMode::bilinear}), {2, 1, 3, 4},
        {-0.38745991643094, 0.47008879488722});
  judge(Upsample({.rows = 1.7, .columns = 0.6}), {2, 1, 3, 4},
        {0.15059935991628, -0.26799274985631});
}

TEST_CASE("BatchNorm's eps and running statistics in evaluation", "[layers]") {
  BatchNorm layer(3, 0.25, 0.3);
  place(layer, DType::f64, test_device(), 1);
  const Tensor x = tensor_with(waves(24, 1), {4, 3, 2}, DType::f64);
  const Tensor before = layer(x, Pass::eval());
  // Mean 0 and variance 1.
  const Values in = to_doubles(x), y = to_doubles(before);
  for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == Approx(in[i] / std::sqrt(1.25)));
  layer(x);
  REQUIRE(to_doubles(layer(x, Pass::eval())) != y);
}

TEST_CASE("layers without weights have none", "[layers]") {
  const auto names = [](Layer&& layer) {
    std::vector<std::string> all;
    layer.visit_parameters([&](const std::string& name, Parameter&) { all.push_back(name); });
    return all;
  };
  using All = std::vector<std::string>;
  REQUIRE(names(BatchNorm(3, 1e-5, 0.1, Affine::none)) == All{});
  REQUIRE(names(InstanceNorm(3)) == All{});
  REQUIRE(names(InstanceNorm(3, 1e-5, Affine::scale_and_shift)) == All{"weight", "bias"});
  REQUIRE(names(LayerNorm(3, 1e-5, Affine::scale)) == All{"weight"});
  REQUIRE(names(GroupNorm(1, 4, Activation::none, 1e-5, Affine::none)) == All{});
}

TEST_CASE("layers say which of their arguments are not the usual ones", "[layers]") {
  REQUIRE(BatchNorm(3).describe() == "batch norm 3");
  REQUIRE(BatchNorm(3, 0.001, 0.5).describe() == "batch norm 3, eps 0.001, momentum 0.5");
  REQUIRE(LayerNorm(Shape{2, 3}).describe() == "layer norm 2 x 3");
  REQUIRE(GroupNorm(2, 4, Activation::relu, 0.5, Affine::none).describe() ==
          "group norm, 2 groups of 2 channels, eps 0.5, no weights + relu");
  REQUIRE(InstanceNorm().describe() == "instance norm");
  REQUIRE(InstanceNorm(3, 0.5, Affine::scale_and_shift).describe() ==
          "instance norm, eps 0.5, with weights");
  REQUIRE(GlobalAvgPool2d().describe() == "global average-pool");
  REQUIRE(GlobalAvgPool2d(Channels::last).describe() == "global average-pool, channels last");
  REQUIRE(MaxPool2d({.kernel = 2, .channels = Channels::last}).describe() ==
          "max-pool 2x2, stride 2, channels last");
  REQUIRE(Upsample({.H = 4, .W = 6}).describe() == "nearest upsample to 4 x 6");
  REQUIRE(Upsample({.rows = 2,
                    .columns = 1.5,
                    .mode = ResizeMode::bilinear,
                    .coordinates = Coordinates::align_corners})
              .describe() == "bilinear upsample by 2 x 1.5, corners aligned");
}

TEST_CASE("layers refuse arguments that have no meaning", "[layers]") {
  REQUIRE_ERROR(BatchNorm(3, -1), "eps of a norm is -1");
  REQUIRE_ERROR(BatchNorm(3, 1e-5, 1.5), "momentum of a batch norm is 1.5: expected it in [0, 1]");
  REQUIRE_ERROR(LayerNorm(Shape{}), "a layer norm over []");
  REQUIRE_ERROR(Upsample({}), "upsample to 0 x 0, by 0 x 0: expected a size");
  REQUIRE_ERROR(Upsample({.H = 2, .W = 2, .rows = 2, .columns = 2}), "not both");
  REQUIRE_ERROR(Upsample({.rows = 2}), "by 2 x 0");
  LayerNorm norm(Shape{2, 3});
  place(norm, DType::f32, test_device(), 1);
  REQUIRE_ERROR(norm(ones({4, 3, 2})), "[layer_norm] x [4, 3, 2]: expected [2, 3] as its last");
}

TEST_CASE("Linear takes rows of its last dimension, or of all behind the first", "[layers]") {
  Linear layer(4, 3);
  place(layer, DType::f64, test_device(), 1);
  const Tensor x = tensor_with(waves(24, 1), {6, 4}, DType::f64);
  const Values y = to_doubles(layer(x));
  const auto answer = [&](const Shape& shape) { return layer(x.reshape(shape)); };
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{1, 6, 4}, Shape{6, 1, 4}, Shape{3, 1, 2, 4}}) {
    REQUIRE(answer(shape).shape() == shape.with(shape.rank() - 1, 3));
    REQUIRE(to_doubles(answer(shape)) == y);
  }
  for (const Shape& shape : {Shape{6, 2, 2}, Shape{6, 4, 1}, Shape{6, 1, 2, 2}}) {
    REQUIRE(answer(shape).shape() == Shape{6, 3});
    REQUIRE(to_doubles(answer(shape)) == y);
  }
  REQUIRE_ERROR(answer({2, 12}), "[linear]");
  REQUIRE_ERROR(answer({2, 4, 3}), "[linear]");
}

TEST_CASE("a perceptron takes images of one row as samples", "[layers]") {
  const auto model = make_mlp(std::vector<int64_t>{4, 5, 3});
  place(*model, DType::f32, test_device(), 1);
  const Tensor x = tensor_with(waves(24, 1), {6, 4}, DType::f32);
  const Tensor y = (*model)(x.reshape({6, 1, 1, 4}));
  REQUIRE(y.shape() == Shape{6, 3});
  REQUIRE(to_doubles(y) == to_doubles((*model)(x)));
}

TEST_CASE("Embedding takes indices of any shape", "[layers]") {
  Embedding layer(5, 3);
  place(layer, DType::f32, test_device(), 1);
  const Tensor index = indices({4, 0, 1, 1, 2, 3}, ones({1}));
  const Tensor y = layer(index.reshape({2, 3}));
  REQUIRE(y.shape() == Shape{2, 3, 3});
  REQUIRE(to_doubles(y) == to_doubles(layer(index)));
}

TEST_CASE("Dropout drops the same of samples and of their rows", "[layers]") {
  const Dropout layer(0.5, 3);
  const Pass pass{.seed = 4, .epoch = 2, .samples = indices({7, 0, 30}, ones({1}))};
  const Values whole = to_doubles(layer(ones({3, 4, 5}), pass));
  REQUIRE(to_doubles(layer(ones({12, 5}), pass)) == whole);
  // Pieces of two rows of each sample, as language models compute them.
  for (const int64_t begin : {0, 2}) {
    Pass of_piece = pass;
    of_piece.begin = begin;
    const Values piece = to_doubles(layer(ones({6, 5}), of_piece));
    REQUIRE(piece == to_doubles(layer(ones({3, 2, 5}), of_piece)));
    for (size_t n = 0; n < 3; ++n)
      for (size_t e = 0; e < 10; ++e)
        REQUIRE(piece[n * 10 + e] == whole[n * 20 + static_cast<size_t>(begin) * 5 + e]);
  }
}

TEST_CASE("StochasticDepth drops whole samples in training alone", "[layers]") {
  const StochasticDepth layer(0.5, 1);
  std::vector<int32_t> some(40);
  for (int32_t i = 0; i < 40; ++i) some[static_cast<size_t>(i)] = 3 * i;
  const Pass pass{.seed = 4, .samples = indices(some, ones({1}))};
  const Values y = to_doubles(layer(ones({40, 2, 3}), pass));
  size_t kept = 0;
  for (size_t n = 0; n < 40; ++n) {
    kept += y[n * 6] != 0;
    for (size_t e = 0; e < 6; ++e) REQUIRE(y[n * 6 + e] == (y[n * 6] == 0 ? 0 : 2));
  }
  REQUIRE((10 <= kept && kept <= 30));
  Pass last = pass;
  last.samples = indices({some.begin() + 30, some.end()}, ones({1}));
  REQUIRE(to_doubles(layer(ones({10, 2, 3}), last)) == Values(y.begin() + 180, y.end()));
  REQUIRE(to_doubles(layer(ones({2, 2}), Pass::eval())) == Values(4, 1));
  REQUIRE(layer.is_random());
  REQUIRE_FALSE(StochasticDepth(0).is_random());
}

}  // namespace accrue::test
