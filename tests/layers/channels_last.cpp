// Networks that keep the channels of their images last answer and learn as those that keep them
// first.

#include "core/random.h"
#include "kernels/losses.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "train/memory_prediction.h"

namespace accrue::test {
namespace {

ModelOptions small_options(ModelKind kind, Channels channels) {
  return {.kind = kind, .width = 0.25, .image = {3, 19, 22}, .classes = 5, .channels = channels};
}

// The answers, and the gradients of all parameters.
struct Results {
  std::vector<std::string> names;
  std::vector<double> y, gradients;
};

Results results_of(ModelKind kind, Channels channels, Recompute recompute = Recompute::none) {
  const auto model = make_model(small_options(kind, channels));
  const Parameters parameters = place(*model, DType::f64, test_device(), 7);
  RandomStream random(21);
  std::vector<double> pixels(4 * 3 * 19 * 22), wanted(4 * 5);
  for (double& v : pixels) v = random.normal();
  for (double& v : wanted) v = random.normal();
  const Tensor x = Tensor::from(pixels, {4, 3, 19, 22}, test_device());
  const Tensor y = (*model)(x, {.recompute = recompute});
  backward(mse_loss(y, Tensor::from(wanted, {4, 5}, test_device())));
  Results results{{}, to_doubles(y), to_doubles(parameters.gradients())};
  for (const auto& entry : parameters.entries()) results.names.push_back(entry.name);
  return results;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

TEST_CASE("networks with channels last answer and learn as with channels first", "[models]") {
  for (const auto& [text, kind] : model_names()) {
    INFO(text);
    if (!takes_channels_last(kind)) {
      REQUIRE_ERROR(make_model(small_options(kind, Channels::last)), "with channels last");
      continue;
    }
    if (on_runner() && (kind == ModelKind::resnet34 || kind == ModelKind::resnet_bn)) continue;
    const Results first = results_of(kind, Channels::first),
                  last = results_of(kind, Channels::last);
    REQUIRE(first.names == last.names);
    // Half of float64's digits: BatchNorms divide by the deviations of the four pixels that the
    // last stages have here, and the largest gradients of resnet50 are 1e3.
    REQUIRE(largest_difference(first.y, last.y) < 1e-8);
    REQUIRE(largest_difference(first.gradients, last.gradients) < 1e-8 * largest(first.gradients));
    const Results again = results_of(kind, Channels::last, Recompute::all);
    REQUIRE(again.y == last.y);
    REQUIRE(again.gradients == last.gradients);
  }
}

TEST_CASE("the first block of a network has its layers without weights too", "[models]") {
  Sequential model;
  model.add<MoveChannels>(Channels::last);
  model.add<Conv2d>(1, 2, 1, Conv2dShape{.channels = Channels::last});
  model.add<MoveChannels>(Channels::first);
  model.add<Conv2d>(2, 2, 1);
  const Parameters parameters = place(model, DType::f32, test_device(), 1);
  REQUIRE(parameters.entries()[2].name == "1.weight");
  std::vector<Shape> seen;
  const Pass pass{
      .recompute = Recompute::all,
      .observe = [&](const Module&, const Shape& x, const Shape&) { seen.push_back(x); }};
  const Tensor x = require_grad(Tensor::full({1, 1, 2, 3}, 1, DType::f32, test_device()));
  const Tensor y = model(x, pass);
  seen.clear();
  backward(mse_loss(y, Tensor::full({1, 2, 2, 3}, 0, DType::f32, test_device())));
  // Backward computes the first block again: three layers of four.
  REQUIRE(seen == std::vector<Shape>{{1, 1, 2, 3}, {1, 2, 3, 1}, {1, 2, 3, 2}});
}

TEST_CASE("--channels last trains on a GPU as --channels first, in predicted memory",
          "[cli][memory]") {
  const std::string train =
      "train --model cnn-bn --micro-batch 4 --accum 2 --steps 3 "
      "--optimizer sgd --lr 0.01" +
      narrow();
  if (test_device() == Device::cpu) {
    refuse(train + " --channels last", "--channels has no effect on the CPU");
    refuse("train --channels middle", "first, last");
    return;
  }
  const Folder folder;
  const auto losses = [&](const std::string& channels, const std::string& more = {}) {
    const std::string text = succeed(train + " --channels " + channels + more + " --json " +
                                     (folder / "log") + " --save " + (folder / channels));
    REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
    std::vector<double> found;
    for (const auto& step : json_steps(folder / "log")) found.push_back(step["loss"]);
    return found;
  };
  const std::vector<double> first = losses("first"), last = losses("last");
  REQUIRE(first.size() == 3);
  // Sums of up to 3136 terms in float32, in three steps.
  REQUIRE(largest_difference(first, last) < 1e-4);
  REQUIRE(largest_difference(folder / "first", folder / "last") < 1e-5);
  REQUIRE(largest_difference(first, losses("last", " --precision bf16")) < 0.05);
  const std::string window = " --batch-norm window";
  REQUIRE(largest_difference(losses("first", window), losses("last", window)) < 1e-4);
  refuse("train --model resnet --channels last", "--channels has no effect with --model resnet");
}

}  // namespace accrue::test
