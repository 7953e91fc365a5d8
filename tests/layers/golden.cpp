// Comparison with PyTorch: gradients, norms, losses and weights of golden files that
// scripts/golden.py wrote in float64, for K = 1 and K = 4, in both dtypes.

#include <cmath>
#include <map>

#include "accumulate/window.h"
#include "data/safetensors.h"
#include "images/segmentation.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "layers/unet.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"
#include "train/score.h"

namespace accrue::test {
namespace {

using Golden = std::map<std::string, Tensor>;

Golden read_golden(const std::string& net) {
  const auto tensors = read_safetensors(source_folder + "/tests/golden/" + net + ".safetensors");
  return {tensors.begin(), tensors.end()};
}

std::unique_ptr<Layer> make_net(const std::string& net) {
  static constexpr std::array<int64_t, 2> channels{8, 8};
  if (net == "resnet") return make_resnet(channels, 1, NormKind::group);
  if (net.starts_with("unet")) return std::make_unique<UNet>(channels);
  if (net == "mlp") {
    static constexpr std::array<int64_t, 4> sizes{20, 16, 12, 10};
    return make_mlp(sizes);
  }
  auto model = std::make_unique<Sequential>();
  int64_t in = 1;
  for (const int64_t out : {4, 6}) {
    model->add<Conv2d>(in, out, 3, Conv2dShape{.padding = 1});
    model->add<MaxPool2d>(Pool2dShape{2});
    model->add<Relu>();
    in = out;
  }
  model->add<Flatten>();
  model->add<Linear>(6 * 2 * 2, 10);
  return model;
}

Tensor convert(const Tensor& source, DType dtype) {
  if (dtype == DType::f32) return source.to(test_device());
  return Tensor::from(to_doubles(source), source.shape(), test_device());
}

// The largest difference, relative to the largest magnitude in the expected tensor.
double relative_difference(const Tensor& actual, const Tensor& expected) {
  REQUIRE(actual.shape() == expected.shape());
  double difference = 0, largest = 0;
  const auto a = to_doubles(actual), e = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - e[i]));
    largest = std::max(largest, std::abs(e[i]));
  }
  return difference / largest;
}

void compare(const std::string& net, int64_t K, DType dtype, Strategy strategy, int steps) {
  const Golden golden = read_golden(net);
  const auto model = make_net(net);
  Parameters parameters = place(*model, dtype, test_device(), 0);
  for (const auto& entry : parameters.entries())
    entry.tensor.copy_from(convert(golden.at("init." + entry.name), dtype));
  const auto optimizer = adam(parameters);
  Samples samples{{{"images", convert(golden.at("input"), dtype)}}};
  const bool has_masks = golden.contains("masks");
  if (has_masks) samples.fields.push_back({"masks", convert(golden.at("masks"), dtype)});
  else samples.fields.push_back({"labels", golden.at("labels").to(test_device())});
  const ObjectivePtr objective = has_masks ? segmentation() : classification();
  const int64_t N = samples.size(), n = N / K;
  Window window(*optimizer, ScheduleOptions{.base = 1e-3},
                {.effective_batch_size = N, .strategy = strategy});

  const std::string k = ".k" + std::to_string(K);
  // The promise for float32 is 1e-5. In float64 both sides round at 1e-16, and Adam's division by
  // sqrt(v) + 1e-8 may enlarge that.
  const double bound = dtype == DType::f32 ? 1e-5 : 1e-9;
  for (int step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < N; i += n) {
      const Samples part = samples.slice(i, i + n);
      window.backward(objective->loss((*model)(part["images"]), part), n);
    }
    if (step == 0 && strategy == Strategy::fused)
      for (const auto& entry : parameters.entries()) {
        INFO("gradient of " << entry.name);
        REQUIRE(relative_difference(grad(entry.tensor), golden.at("grad" + k + "." + entry.name)) <
                bound);
      }
    const StepReport report = window.step();
    const auto at = static_cast<size_t>(step);
    REQUIRE(std::abs(report.loss / golden.at("loss" + k).span<double>()[at] - 1) < bound);
    REQUIRE(std::abs(report.grad_norm / golden.at("grad_norm" + k).span<double>()[at] - 1) < bound);
  }
  if (steps < 10) return;
  for (const auto& entry : parameters.entries()) {
    INFO("weights of " << entry.name);
    REQUIRE(relative_difference(entry.tensor, golden.at("final" + k + "." + entry.name)) < bound);
  }
}

}  // namespace

TEST_CASE("ten Adam steps are PyTorch's", "[golden]") {
  for (const std::string net : {"mlp", "cnn", "resnet", "unet", "unet_padded"})
    for (const int64_t K : {1, 4})
      for (const DType dtype : {DType::f32, DType::f64})
        for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
          const bool blocks = net == "resnet" || net.starts_with("unet");  // minutes on the runner
          if (on_runner() && blocks &&
              (K == 1 || dtype == DType::f64 || strategy == Strategy::separate))
            continue;
          if (reduced() && on_runner() && dtype == DType::f64 && strategy == Strategy::separate)
            continue;
          INFO(net << ", K = " << K << ", " << name(dtype)
                   << (strategy == Strategy::fused ? ", fused" : ", separate"));
          compare(net, K, dtype, strategy, reduced() && on_runner() && blocks ? 3 : 10);
        }
}

}  // namespace accrue::test
