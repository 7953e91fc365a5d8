// Networks made of blocks: their names, gradients, splits and memory.

#include "layers/models.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/random.h"
#include "images/digits.h"
#include "images/segmentation.h"
#include "images/shapes.h"
#include "layers/unet.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/objective.h"
#include "train/memory_prediction.h"
#include "train/relative_cost.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue::test {
namespace {

using Split = std::vector<int64_t>;

constexpr int64_t N = 8, image = 8;
constexpr std::array<int64_t, 2> channels{8, 16};

std::unique_ptr<Layer> small(ModelKind kind) {
  if (kind == ModelKind::unet) return std::make_unique<UNet>(channels);
  return make_resnet(channels, 1, kind == ModelKind::resnet_bn ? NormKind::batch : NormKind::group);
}

// N random samples with labels, or with masks for the U-Net.
Samples random_samples(ModelKind kind) {
  RandomStream random(21);
  const auto draw = [&](auto&& value) {
    std::vector<double> values(static_cast<size_t>(N * image * image));
    for (double& v : values) v = value();
    return Tensor::from(values, {N, 1, image, image}, test_device());
  };
  Samples samples{{{"images", draw([&] { return random.normal(); })}}};
  if (kind == ModelKind::unet) {
    samples.fields.push_back({"masks", draw([&] { return random.below(2); })});
  } else {
    std::vector<int32_t> labels(N);
    for (int32_t& label : labels) label = static_cast<int32_t>(random.below(10));
    samples.fields.push_back({"labels", Tensor::from(labels, {N}, test_device())});
  }
  return samples;
}

struct Learner {
  std::unique_ptr<Layer> model;
  Samples samples;
  Parameters parameters;

  explicit Learner(ModelKind kind)
      : model(small(kind)),
        samples(random_samples(kind)),
        parameters(place(*model, DType::f64, test_device(), 7)) {}

  Tensor loss(int64_t begin, int64_t end) const {
    const Samples part = samples.slice(begin, end);
    const ObjectivePtr objective = part.has("masks") ? segmentation() : classification();
    return objective->loss((*model)(part["images"]), part);
  }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// d/dh of the loss with the parameter moved by h times the direction, by a central difference.
double slope_along(const Learner& learner, const Tensor& parameter,
                   const std::vector<double>& direction) {
  constexpr double h = 1e-6;
  const NoGrad no_grad;
  const auto start = to_doubles(parameter);
  const auto loss_at = [&](double distance) {
    auto moved = start;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
    parameter.copy_from(Tensor::from(moved, parameter.shape(), test_device()));
    return learner.loss(0, N).item();
  };
  const double slope = (loss_at(h) - loss_at(-h)) / (2 * h);
  parameter.copy_from(Tensor::from(start, parameter.shape(), test_device()));
  return slope;
}

std::vector<std::string> names_of(Layer& model) {
  std::vector<std::string> names;
  model.visit_parameters([&](const std::string& name, const Parameter&) { names.push_back(name); });
  return names;
}

// The gradient of a window of the N samples in micro-batches by `split`.
std::vector<double> gradient_of(ModelKind kind, const Split& split) {
  const Learner learner(kind);
  int64_t begin = 0;
  for (const int64_t n : split) {
    backward(learner.loss(begin, begin + n), double(n) / double(N));
    begin += n;
  }
  return to_doubles(learner.parameters.gradients());
}

const std::vector<ModelKind> block_models{ModelKind::resnet, ModelKind::resnet_bn, ModelKind::unet};
const std::set<ModelKind> one_of_each_kind{ModelKind::mlp, ModelKind::cnn_bn, ModelKind::resnet,
                                           ModelKind::resnet50, ModelKind::unet};

}  // namespace

TEST_CASE("parameters of blocks are named as in PyTorch", "[models]") {
  const std::vector<std::string> resnet{"0.weight",
                                        "1.weight",
                                        "1.bias",
                                        "3.conv1.weight",
                                        "3.bn1.weight",
                                        "3.bn1.bias",
                                        "3.conv2.weight",
                                        "3.bn2.weight",
                                        "3.bn2.bias",
                                        "4.conv1.weight",
                                        "4.bn1.weight",
                                        "4.bn1.bias",
                                        "4.conv2.weight",
                                        "4.bn2.weight",
                                        "4.bn2.bias",
                                        "4.downsample.0.weight",
                                        "4.downsample.1.weight",
                                        "4.downsample.1.bias",
                                        "7.weight",
                                        "7.bias"};
  REQUIRE(names_of(*small(ModelKind::resnet)) == resnet);
  std::vector<std::string> unet;
  for (const char* part : {"encoder.0", "encoder.1", "up.0", "decoder.0"}) {
    const std::string prefix = part;
    if (prefix == "up.0") {
      for (const char* name : {".weight", ".bias"}) unet.push_back(prefix + name);
      continue;
    }
    for (const char* name :
         {".0.weight", ".1.weight", ".1.bias", ".3.weight", ".4.weight", ".4.bias"})
      unet.push_back(prefix + name);
  }
  for (const char* name : {"head.weight", "head.bias"}) unet.push_back(name);
  REQUIRE(names_of(*small(ModelKind::unet)) == unet);
}

TEST_CASE("norms of rows start with a scale of 1, and take an eps", "[models]") {
  RmsNorm rms(4, 0.5);
  LayerNorm layer(4, 0.5);
  const Parameters of_rms = place(rms, DType::f64, test_device(), 1),
                   of_layer = place(layer, DType::f64, test_device(), 1);
  REQUIRE(of_rms.entries().size() == 1);
  REQUIRE(of_rms.entries()[0].name == "weight");
  const Tensor x =
      Tensor::from(std::vector<double>{3, -1, 2, 4, 1, 0, 0, 0}, {2, 4}, test_device());
  REQUIRE(to_doubles(rms(x)) == to_doubles(rms_norm(x, {}, 0.5)));
  REQUIRE(to_doubles(layer(x)) == to_doubles(layer_norm(x, {}, {}, 0.5)));
}

TEST_CASE("dropout takes no place in the names of parameters", "[models]") {
  for (const auto& [text, kind] : model_names()) {
    INFO(text);
    REQUIRE(names_of(*make_model({.kind = kind, .dropout = 0.5})) ==
            names_of(*make_model({.kind = kind})));
  }
}

TEST_CASE("models of blocks answer in the shapes of their tasks", "[models]") {
  const NoGrad no_grad;
  const auto images = [](int64_t H, int64_t W) {
    return Tensor::empty({3, 1, H, W}, DType::f32, Device::meta);
  };
  for (const Tensor& x : {images(28, 28), images(24, 32), images(37, 19), images(1, 2)})
    for (const auto& [kind, shape] : std::map<ModelKind, Shape>{{ModelKind::resnet, {3, 10}},
                                                                {ModelKind::resnet_bn, {3, 10}},
                                                                {ModelKind::unet, x.shape()}}) {
      ModelOptions options = default_model(kind);
      options.dropout = 0.5;
      const auto model = make_model(options);
      const Parameters parameters = place(*model, DType::f32, Device::meta, 1);
      INFO(name(kind) << ", " << parameters.count() << " parameters, " << to_string(x.shape()));
      REQUIRE((*model)(x, Pass::eval()).shape() == shape);
      if (kind == ModelKind::unet)
        REQUIRE_ERROR((*model)(Tensor::empty({28, 28}, DType::f32, Device::meta), Pass::eval()),
                      "a U-Net and images [28, 28]: expected [N, C, H, W]");
    }
  REQUIRE_ERROR(make_resnet({}, 3, NormKind::group), "a ResNet needs stages and blocks");
  REQUIRE_ERROR(UNet({}), "a U-Net needs the channels of at least one level");
  REQUIRE_ERROR(make_norm(NormKind::none, 8), "got none");
}

TEST_CASE("residual blocks without norms have biases, and add equal shapes", "[models]") {
  BasicBlock block(2, 4, 2, NormKind::none);
  REQUIRE(names_of(block) == std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight",
                                                      "conv2.bias", "downsample.0.weight",
                                                      "downsample.0.bias"});
  REQUIRE(block.describe().find("no norm, projected shortcut") != std::string::npos);
  const Parameters parameters = place(block, DType::f32, test_device(), 1);
  const Tensor x = Tensor::full({3, 2, 5, 5}, 1, DType::f32, test_device());
  REQUIRE(block(x).shape() == Shape{3, 4, 3, 3});
  const auto made = [](const Shape& shape) {
    return Tensor::full(shape, 1, DType::f32, test_device());
  };
  REQUIRE_ERROR(detail::check_residual("block", made({3, 4}), made({1, 4})),
                "[block] adds [1, 4] to [3, 4]");
}

TEST_CASE("an embedding's row of padding begins with 0, and stays as a file has it", "[models]") {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    Embedding embedding(4, 3, -2);
    const Parameters parameters = place(embedding, dtype, test_device(), 1);
    const Tensor index = Tensor::from(std::vector<int32_t>{2, 0, 2, 3}, {2, 2}, test_device());
    const std::vector<double> y = to_doubles(embedding(index));
    REQUIRE(std::count(y.begin(), y.end(), 0.0) == 6);
    parameters.entries()[0].tensor.fill(2);  // as a file might have it
    embedding.begin_window();
    REQUIRE(to_doubles(parameters.entries()[0].tensor) == std::vector<double>(12, 2));
  }
  REQUIRE_ERROR(Embedding(4, 3, 4), "padding_idx 4: expected -4 to 3");
}

TEST_CASE("RMS norms over several dimensions and flattens of some", "[models]") {
  RmsNorm rms(Shape{2, 2}, 0.5, Affine::none);
  REQUIRE(rms.describe() == "RMS norm 2 x 2, eps 0.5, no weights");
  const Tensor x = Tensor::from(std::vector<double>{3, -1, 2, 4}, {1, 2, 2}, test_device());
  REQUIRE(to_doubles(rms(x)) == to_doubles(rms_norm(x.reshape({1, 4}), {}, 0.5)));
  const Tensor images = Tensor::full({2, 3, 4, 5}, 1, DType::f32, test_device());
  REQUIRE(Flatten(2)(images).shape() == Shape{2, 3, 20});
  REQUIRE(Flatten(-3, 2)(images).shape() == Shape{2, 12, 5});
  REQUIRE_ERROR(Flatten(-4)(images), "which numbers the samples");
  REQUIRE_ERROR(Flatten(0), "which numbers the samples");
}

TEST_CASE("an observer sees every part of a model, and the model's answer is the same",
          "[models]") {
  const Learner learner(ModelKind::unet);
  const NoGrad no_grad;
  std::vector<std::string> seen;
  const Pass watched{.mode = Pass::Mode::train,
                     .observe = [&](const Module& module, const Shape&, const Shape&) {
                       seen.push_back(module.describe());
                     }};
  const Tensor y = (*learner.model)(learner.samples["images"], watched);
  REQUIRE(to_doubles(y) == to_doubles((*learner.model)(learner.samples["images"])));
  // 3 DoubleConvs of 4 layers each, a transposed convolution, the head, and the model itself.
  REQUIRE(seen.size() == 3 * 4 + 3);
  REQUIRE(seen.back() == learner.model->describe());
}

TEST_CASE("the arithmetic of a sample is that of its products and convolutions", "[models]") {
  // Products per pixel: encoder.0 (1 + 8) * 8 * 9, decoder.0 (16 + 8) * 8 * 9, head 8. At a quarter
  // of the pixels: encoder.1 (8 + 16) * 16 * 9 and up.0 16 * 8 * 4.
  const int64_t whole = 9 * 8 * 9 + 24 * 8 * 9 + 8, quarter = 24 * 16 * 9 + 16 * 8 * 4;
  // 6 flops for each product, less the gradient of the images, which is not computed.
  const int64_t flops = image * image * (6 * whole - 2 * 9 * 8) + image * image / 4 * 6 * quarter;
  REQUIRE(training_flops_per_sample([] { return small(ModelKind::unet); }, {1, 1, image, image}) ==
          double(flops));
}

TEST_CASE("gradients of models of blocks agree with central differences", "[models]") {
  for (const ModelKind kind : block_models) {
    const Learner learner(kind);
    backward(learner.loss(0, N));
    RandomStream random(5);
    size_t number = 0;
    for (const auto& entry : learner.parameters.entries()) {
      if (on_runner() && number++ % 6 != 0) continue;
      INFO(name(kind) << ", " << entry.name);
      std::vector<double> direction(static_cast<size_t>(entry.tensor.numel()));
      for (double& d : direction) d = random.normal();
      const double norm = std::sqrt(dot(direction, direction));
      for (double& d : direction) d /= norm;
      const double expected = slope_along(learner, entry.tensor, direction);
      // Two losses near 2 are each off by a few 1e-16; their difference divided by 2e-6 is off by
      // 1e-9. The third derivative times h^2 = 1e-12 is of that size for derivatives up to 1000.
      REQUIRE(std::abs(dot(to_doubles(grad(entry.tensor)), direction) - expected) < 1e-8);
    }
  }
}

TEST_CASE("every split gives the gradient of one batch, but with BatchNorm", "[models]") {
  for (const ModelKind kind : block_models) {
    INFO(name(kind));
    const auto whole = gradient_of(kind, {N});
    for (const Split& split : {Split{4, 4}, Split{3, 3, 2}, Split(N, 1)}) {
      if (on_runner() && split.size() > 3) continue;
      const double difference = largest_difference(gradient_of(kind, split), whole);
      // Sums of N * 64 terms of at most 10, each rounded by 1e-16.
      if (kind != ModelKind::resnet_bn) REQUIRE(difference <= 1e-12);
      else REQUIRE(difference > 1e-4);
    }
  }
}

TEST_CASE("the peak of a model of blocks is predicted to the byte", "[models][memory]") {
  const Device device = test_device();
  for (const ModelKind kind : block_models) {
    if (reduced() && !one_of_each_kind.contains(kind)) continue;
    const Datasets host = kind == ModelKind::unet
                              ? Datasets{make_shapes(accrue::Split::train, {.train_size = 16}),
                                         make_shapes(accrue::Split::test, {.test_size = 4})}
                              : Datasets{make_digits(accrue::Split::train, {.train_size = 16}),
                                         make_digits(accrue::Split::test, {.test_size = 4})};
    const Datasets data{host.train.to(device), host.test.to(device)};
    TrainingOptions options;
    options.model = model_factory(default_model(kind));
    options.objective = objective_on(data.train);
    Usage first;
    for (const Batches batches : {Batches{1, 2}, {2, 2}, {2, 4}, {2, 7}, {2, 14}}) {
      for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
        if (on_runner() && (batches.micro > 1 || strategy == Strategy::separate)) continue;
        options.strategy = strategy;
        options.batches = batches;
        INFO(name(kind) << ", " << batches.describe());
        const Usage predicted = predict_peak(options, data, device);
        const Usage measured = peak_of_windows(options, data.train, device);
        REQUIRE(predicted.bytes == measured.bytes);
        if (batches.micro == 1) continue;
        // The activations are the same for any number of micro-batches of two.
        if (first.total() == 0) first = measured;
        REQUIRE(measured[Category::activations] == first[Category::activations]);
      }
    }
  }
}

TEST_CASE("every model takes images of any channels, height and width, and any classes",
          "[models]") {
  constexpr int64_t samples = 3, C = 3, classes = 7;
  for (const auto& [name, kind] : model_names()) {
    if (reduced() && !one_of_each_kind.contains(kind)) continue;
    INFO(name);
    // Models for photographs are large, and BatchNorm needs more than one pixel in their last
    // stage.
    const bool large = default_model(kind).image[1] > 100;
    const int64_t H = large ? 36 : 20, W = large ? 40 : 12;
    RandomStream random(5);
    std::vector<uint8_t> pixels(static_cast<size_t>(samples * C * H * W)),
        mask(static_cast<size_t>(samples * classes * H * W));
    for (auto* bytes : {&pixels, &mask})
      for (uint8_t& byte : *bytes) byte = random.below(2) ? 255 : 0;
    Dataset data{
        "colours", "test", {{"images", Tensor::from(pixels, {samples, C, H, W}), Encoding::pixel}}};
    if (kind == ModelKind::unet)
      data.fields.push_back(
          {"masks", Tensor::from(mask, {samples, classes, H, W}), Encoding::mask});
    else
      data.fields.push_back({"labels", Tensor::from(std::vector<int32_t>{6, 0, 3}, {samples}),
                             Encoding::index, classes});
    data = data.to(test_device());
    const ModelOptions model{
        .kind = kind, .width = large ? 0.125 : 0.5, .image = {C, H, W}, .classes = classes};
    TrainingOptions options;
    options.model = model_factory(model);
    options.objective = objective_on(data);
    options.batches = {.micro = 2, .effective = 3};
    const Usage measured = peak_of_windows(options, data, test_device());
    const Usage predicted = planned_peak(options, data.to(meta_of(test_device())), test_device());
    REQUIRE(predicted.bytes == measured.bytes);
    REQUIRE(training_flops_per_sample(options.model, {1, C, H, W}) > 0);
    Training training(options, data, test_device());
    const Score score =
        evaluate(training.model(), *options.objective, data, 2, DType::f32, test_device());
    REQUIRE(std::isfinite(score.loss));
    REQUIRE(score.samples == samples);
  }
  REQUIRE_ERROR(make_model({.kind = ModelKind::cnn, .image = {1, 3, 28}}),
                "model cnn on images [1, 3, 28]: expected a height and width of at least 4");
  REQUIRE_ERROR(make_model({.image = {28, 28}}), "expected [C, H, W]");
}

TEST_CASE("the score of masks is over all pixels, whatever the micro-batch", "[models]") {
  const Dataset data = make_shapes(accrue::Split::test, {.test_size = 5});
  UNet model(channels);
  const Parameters parameters = place(model, DType::f32, test_device(), 3);
  const Samples all = gather(data, 0, 5);
  const Tensor logits = model(all["images"].to(test_device()), Pass::eval());
  const auto x = to_doubles(logits), t = to_doubles(all["masks"]);
  double loss = 0, both = 0, found = 0, wanted = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    loss += std::log1p(std::exp(t[i] == 1 ? -x[i] : x[i])) / double(x.size());
    both += x[i] > 0 && t[i] == 1;
    found += x[i] > 0;
    wanted += t[i];
  }
  REQUIRE(both > 0);
  for (const int64_t micro_batch : {2, 5, 64}) {
    const Score score = evaluate(model, *segmentation(), data.to(test_device()), micro_batch,
                                 DType::f32, test_device());
    REQUIRE(score.samples == 5);
    // A logit within its rounding of 0 may fall on the other side in another micro-batch.
    REQUIRE(score["dice"] == Approx(2 * both / (found + wanted)).epsilon(1e-3));
    REQUIRE(score["iou"] == Approx(both / (found + wanted - both)).epsilon(1e-3));
    REQUIRE(score.loss == Approx(loss).epsilon(1e-5));
  }
}

namespace {

// A module whose constructor makes the declarations that it is given.
struct Declaring : Layer {
  explicit Declaring(const std::function<void(Declaring&)>& say) { say(*this); }
  using Layer::declare;
  Tensor forward(Tensor x, const Pass&) const override { return x; }
  std::string describe() const override { return "declaring"; }
  Linear one{2, 3}, other{2, 3};
  Parameter bias{{3}, {}, {}};
};

void place_module(Layer& module) { place(module, DType::f32, Device::cpu, 1); }

}  // namespace

TEST_CASE("what is declared twice is refused", "[models]") {
  REQUIRE_ERROR(Declaring([](auto& m) { m.declare("a", m.one), m.declare("b", m.one); }),
                "a member is declared as 'a' and again as 'b'");
  REQUIRE_ERROR(Declaring([](auto& m) { m.declare("w", m.bias), m.declare("v", m.bias); }),
                "declared as 'w' and again as 'v'");
  REQUIRE_ERROR(Declaring([](auto& m) { m.declare("me", m); }), "a module declares itself as 'me'");
  Declaring same([](auto& m) { m.declare("a", m.one), m.declare("a", m.other); });
  REQUIRE_ERROR(place_module(same), "two parameters or buffers of the model are called 'a.weight'");
  Declaring dotted([](auto& m) { m.declare("a", m.one), m.declare("a.bias", m.bias); });
  REQUIRE_ERROR(place_module(dotted), "are called 'a.bias'");
  // A module that is declared by two parents.
  Declaring shared([](auto& m) { m.declare("a", m.one); });
  Declaring parent([&](auto& m) { m.declare("x", shared), m.declare("y", shared.one); });
  REQUIRE_ERROR(place_module(parent), "'x.a.weight' and 'y.weight' are one parameter or buffer");
  Declaring apart([](auto& m) { m.declare("a", m.one), m.declare("b", m.other); });
  place_module(apart);
}

TEST_CASE("null is no layer and no model", "[models]") {
  Sequential model;
  REQUIRE_ERROR(model.append(nullptr), "null is appended to a Sequential");
  REQUIRE_ERROR(model.append("head", nullptr), "null is appended to a Sequential");
  TrainingOptions options;
  options.batches = {.micro = 2, .effective = 4};
  const Dataset data = make_digits(accrue::Split::train, {.train_size = 8, .test_size = 4});
  REQUIRE_ERROR(Training(options, data, Device::cpu), "have no model: expected a function");
  options.model = [] { return std::unique_ptr<Layer>(); };
  REQUIRE_ERROR(Training(options, data, Device::cpu), "returned null: expected a module");
}

TEST_CASE("an error of a layer says which layer it is of", "[models]") {
  Sequential model;
  model.add<Linear>(4, 8, Activation::relu);
  auto& block = model.add<Sequential>();
  block.add<Linear>(9, 2);
  const Parameters parameters = place(model, DType::f32, Device::cpu, 1);
  const Tensor x = Tensor::full({1, 4}, 1, DType::f32, Device::cpu);
  REQUIRE_ERROR(predict(model, x), "in layer '2.0 linear 9 -> 2': [linear] ");
  REQUIRE_ERROR(predict(model, Tensor()), "in layer '0 linear 4 -> 8 + relu': ");
}

}  // namespace accrue::test
