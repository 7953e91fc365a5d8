// Comparison with torchvision's networks. scripts/golden_torchvision.py wrote the golden file, and
// documents its contents. Weights and images follow from the same formula here.

#include <cmath>
#include <map>
#include <set>

#include "accumulate/window.h"
#include "data/safetensors.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"

namespace accrue::test {
namespace {

constexpr int64_t photographs = 4, photograph_classes = 5;
const Shape photograph{3, 48, 40};
constexpr int64_t images_stream = 100000, labels_stream = 100001;
constexpr std::array<int64_t, 2> vector_streams{100002, 100003};

std::vector<double> from_formula(int64_t stream, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    auto x = static_cast<uint32_t>(i + stream * 7919 + 1);
    for (const uint32_t factor : {0x2c1b3c6du, 0x297a2d39u}) x = (x ^ (x >> 15)) * factor;
    values.push_back(double(x ^ (x >> 16)) / 2147483648.0 - 1);
  }
  return values;
}

bool is_near_one(const std::string& name) {
  const bool norm =
      name.find("bn") != std::string::npos || name.find("downsample.1") != std::string::npos;
  return name.ends_with("running_var") || (norm && name.ends_with("weight"));
}

std::vector<double> initial_values(int64_t stream, const std::string& name, const Shape& shape) {
  std::vector<double> values = from_formula(stream, shape.numel());
  const double spread = std::sqrt(6 / double(shape.numel(1, shape.rank())));
  for (double& u : values) {
    if (shape.rank() > 1) u *= spread;
    else u = is_near_one(name) ? 1 + u / 2 : u / 4;
    u = float(u);
  }
  return values;
}

struct TorchvisionNet {
  std::unique_ptr<Layer> model;
  Parameters parameters;

  TorchvisionNet(ModelKind kind, DType dtype, const std::vector<std::string>& freeze = {})
      : model(make_model({.kind = kind, .image = photograph, .classes = photograph_classes})),
        parameters(place(*model, dtype, test_device(), 1, GradientStorage::arena, freeze)) {
    int64_t stream = 0;
    for (const auto* entries : {&parameters.all_entries(), &parameters.buffer_entries()})
      for (const auto& [name, offset, tensor] : *entries) {
        const auto values = initial_values(stream++, name, tensor.shape());
        if (dtype == DType::f64) Tensor(tensor).copy_from(Tensor::from(values, tensor.shape()));
        else
          Tensor(tensor).copy_from(
              Tensor::from(std::vector<float>(values.begin(), values.end()), tensor.shape()));
      }
  }
};

Tensor photograph_images(DType dtype, int64_t count = photographs) {
  const auto values = from_formula(images_stream, count * photograph.numel());
  const std::vector<float> rounded(values.begin(), values.end());
  const Shape shape{count, photograph[0], photograph[1], photograph[2]};
  if (dtype == DType::f32) return Tensor::from(rounded, shape, test_device());
  return Tensor::from(std::vector<double>(rounded.begin(), rounded.end()), shape, test_device());
}

Tensor photograph_labels(int64_t count = photographs) {
  std::vector<int32_t> values;
  for (const double u : from_formula(labels_stream, count))
    values.push_back(static_cast<int32_t>((u + 1) / 2 * photograph_classes));
  return Tensor::from(values, {count}, test_device());
}

// Compares the sum of squares, and the products with two vectors.
void require_sums(const std::vector<double>& x, const std::vector<double>& expected,
                  double tolerance = 1e-10) {
  std::vector<double> sums(3);
  const auto n = static_cast<int64_t>(x.size());
  for (const double v : x) sums[0] += v * v;
  for (size_t v = 0; v < 2; ++v) {
    const auto vector = from_formula(vector_streams[v], n);
    for (size_t i = 0; i < x.size(); ++i) sums[1 + v] += x[i] * vector[i];
  }
  // A product is at most the norm of x times the norm of a vector of n elements up to 1.
  const double norm = std::sqrt(expected[0]);
  REQUIRE(std::abs(sums[0] - expected[0]) <= tolerance * expected[0]);
  for (size_t i : {1, 2})
    REQUIRE(std::abs(sums[i] - expected[i]) <= tolerance * norm * std::sqrt(double(n)));
}

}  // namespace

TEST_CASE("resnet18, resnet34 and resnet50 are torchvision's, with GroupNorm, too", "[golden]") {
  if (on_runner()) return;  // hours
  const auto stored = read_safetensors(source_folder + "/tests/golden/torchvision.safetensors");
  std::map<std::string, Tensor> golden(stored.begin(), stored.end());
  for (const ModelKind kind : {ModelKind::resnet18, ModelKind::resnet34, ModelKind::resnet50,
                               ModelKind::resnet18_gn, ModelKind::resnet50_gn}) {
    const std::string prefix = name(kind) + ".";
    INFO(name(kind));
    const auto take = [&](const std::string& own) {
      INFO(own);
      const auto found = golden.find(prefix + own);
      REQUIRE(found != golden.end());
      const auto values = to_doubles(found->second);
      golden.erase(found);
      return values;
    };
    const auto logits = take("logits");
    double largest = 0;
    for (const double logit : logits) largest = std::max(largest, std::abs(logit));
    for (const DType dtype : {DType::f32, DType::f64}) {
      const TorchvisionNet net(kind, dtype);
      const NoGrad no_grad;
      const auto ours = to_doubles((*net.model)(photograph_images(dtype), Pass::eval()));
      REQUIRE(ours.size() == logits.size());
      for (size_t i = 0; i < ours.size(); ++i)
        REQUIRE(std::abs(ours[i] - logits[i]) <= (dtype == DType::f32 ? 1e-5 : 1e-12) * largest);
    }

    const TorchvisionNet net(kind, DType::f64);
    const Tensor loss =
        cross_entropy((*net.model)(photograph_images(DType::f64)), photograph_labels());
    REQUIRE(loss.item() == Approx(take("loss")[0]).epsilon(1e-12));
    backward(loss);
    for (const auto& entry : net.parameters.entries()) {
      INFO(entry.name);
      require_sums(to_doubles(grad(entry.tensor)), take("grad." + entry.name));
    }
    for (const auto& entry : net.parameters.buffer_entries()) {
      INFO(entry.name);
      require_sums(to_doubles(entry.tensor), take("buffer." + entry.name));
    }
  }
  // Every tensor of torchvision's network has a counterpart here.
  REQUIRE(golden.empty());
}

TEST_CASE("fine-tuning with frozen layers takes PyTorch's steps", "[golden]") {
  if (on_runner()) return;  // hours
  // scripts/golden_fine_tuning.py documents the contents of the file.
  const auto stored = read_safetensors(source_folder + "/tests/golden/fine_tuning.safetensors");
  std::map<std::string, Tensor> golden(stored.begin(), stored.end());
  const auto take = [&](const std::string& own) {
    INFO(own);
    const auto found = golden.find(own);
    REQUIRE(found != golden.end());
    const auto values = to_doubles(found->second);
    golden.erase(found);
    return values;
  };
  // The gradients are sums of terms that cancel, and Adam divides by the root of their squares. Ten
  // steps carry each difference on. More than half of the 16 digits remain.
  constexpr double tolerance = 1e-7;
  const Tensor x = photograph_images(DType::f64, 2 * photographs);
  const Tensor labels = photograph_labels(2 * photographs);
  const std::map<std::string, std::vector<std::string>> frozen{
      {"backbone", {"backbone"}}, {"half", {"conv1", "bn1", "layer1", "layer2"}}};
  for (const auto& [what, freeze] : frozen)
    for (const std::string how : {"sgd", "adam"}) {
      const std::string prefix = what + "." + how + ".";
      INFO(prefix);
      TorchvisionNet net(ModelKind::resnet18, DType::f64, freeze);
      const TorchvisionNet begun(ModelKind::resnet18, DType::f64);
      const auto optimizer = how == "sgd"
                                 ? sgd(net.parameters, {.momentum = 0.9, .weight_decay = 1e-2})
                                 : adam(net.parameters);
      Window window(*optimizer, ScheduleOptions{.base = how == "sgd" ? 1e-4 : 1e-3},
                    {.effective_batch_size = 2 * photographs});
      for (const double expected : take(prefix + "losses")) {
        for (const int64_t i : {int64_t{0}, photographs})
          window.backward(cross_entropy((*net.model)(x.slice(i, i + photographs)),
                                        labels.slice(i, i + photographs)),
                          photographs);
        REQUIRE(window.step().loss == Approx(expected).epsilon(tolerance));
      }
      std::set<std::string> trained;
      for (size_t i = 0; i < net.parameters.all_entries().size(); ++i) {
        const auto& entry = net.parameters.all_entries()[i];
        INFO(entry.name);
        std::vector<double> change = to_doubles(entry.tensor);
        const auto before = to_doubles(begun.parameters.entries()[i].tensor);
        if (entry.frozen()) {
          REQUIRE(change == before);
          continue;
        }
        trained.insert(layer_of(entry.name));
        for (size_t j = 0; j < change.size(); ++j) change[j] -= before[j];
        require_sums(change, take(prefix + "change." + entry.name), tolerance);
      }
      for (size_t i = 0; i < net.parameters.buffer_entries().size(); ++i) {
        const auto& [name, offset, tensor] = net.parameters.buffer_entries()[i];
        INFO(name);
        if (trained.contains(layer_of(name)))
          require_sums(to_doubles(tensor), take(prefix + "buffer." + name), tolerance);
        else REQUIRE(to_doubles(tensor) == to_doubles(begun.parameters.buffer_entries()[i].tensor));
      }
    }
  REQUIRE(golden.empty());
}

TEST_CASE("torchvision's networks begin as there", "[models]") {
  const auto model = make_model({.kind = ModelKind::resnet18, .width = 0.125, .classes = 7});
  model->visit_parameters([](const std::string& name, const Parameter& p) {
    INFO(name);
    const Shape& shape = p.shape;
    if (shape.rank() == 4) {
      REQUIRE(p.init.kind == Init::Kind::normal);
      REQUIRE(p.init.scale == Approx(std::sqrt(2.0 / double(shape[0] * shape[2] * shape[3]))));
    } else if (name.starts_with("fc")) {
      REQUIRE(p.init.kind == Init::Kind::uniform);
      REQUIRE(p.init.scale == Approx(1 / std::sqrt(64.0)));
    } else {
      REQUIRE(p.init.kind == Init::Kind::constant);
      REQUIRE(p.init.scale == (name.ends_with("weight") ? 1 : 0));
    }
  });
}

TEST_CASE("torchvision's networks take any image", "[models]") {
  const NoGrad no_grad;
  for (const ModelKind kind : {ModelKind::resnet18, ModelKind::resnet50})
    for (const Shape& size : {Shape{1, 1, 1}, Shape{4, 28, 28}, Shape{3, 65, 130}}) {
      const auto model = make_model({.kind = kind, .width = 0.25, .image = size, .classes = 6});
      const Parameters parameters = place(*model, DType::f32, Device::meta, 1);
      const Tensor x = Tensor::empty({2, size[0], size[1], size[2]}, DType::f32, Device::meta);
      REQUIRE((*model)(x, Pass::eval()).shape() == Shape{2, 6});
    }
}

}  // namespace accrue::test
