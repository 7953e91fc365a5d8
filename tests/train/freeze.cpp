// Frozen layers: their cost, their values, and the training of the other layers.

#include <map>

#include "accumulate/window.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "train/memory_prediction.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

using Names = std::vector<std::string>;

const ModelOptions small_resnet{
    .kind = ModelKind::resnet18, .width = 0.125, .image = {1, 33, 33}, .classes = 10};

Names names_of(const std::vector<Parameters::Entry>& entries) {
  Names names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

// Images of noise in ten classes.
Dataset noise(int64_t samples) {
  RandomStream random(5);
  const Tensor images = Tensor::empty({samples, 1, 33, 33}, DType::u8, Device::cpu, Category::data);
  const Tensor labels = Tensor::empty({samples}, DType::i32, Device::cpu, Category::data);
  for (uint8_t& pixel : images.span<uint8_t>()) pixel = static_cast<uint8_t>(random.below(256));
  for (int32_t& label : labels.span<int32_t>()) label = static_cast<int32_t>(random.below(10));
  return {
      .name = "noise",
      .source = "a test",
      .fields = {{.name = "images", .values = images, .encoding = Encoding::pixel},
                 {.name = "labels", .values = labels, .encoding = Encoding::index, .classes = 10}}};
}

TrainingOptions training_of(const ModelOptions& model, const Names& freeze) {
  TrainingOptions o;
  o.model = model_factory(model);
  o.freeze = freeze;
  o.batches = {4, 8};
  o.steps = 2;
  return o;
}

Tensor converted(const Tensor& x, DType dtype) {
  const std::vector<double> values = to_doubles(x);
  const Tensor y = Tensor::empty(x.shape(), dtype, Device::cpu, Category::data);
  dispatch_floating(dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) y.span<T>()[i] = T(Wide<T>(values[i]));
  });
  return y.to(test_device());
}

size_t bytes_in(Category category) { return ledger(test_device()).current()[category]; }

using NamedValues = std::vector<std::pair<std::string, std::vector<double>>>;

// The values of parameters and module buffers.
NamedValues weights_of(Trainer& trainer) {
  NamedValues values;
  for (const auto& [name, tensor] : trainer.training().named_tensors())
    values.emplace_back(name, to_doubles(tensor));
  return values;
}

}  // namespace

TEST_CASE("frozen parameters have no gradient and no moments", "[freeze]") {
  const auto model = make_model(small_resnet);
  const size_t before = bytes_in(Category::gradients);
  const size_t optimizer_before = bytes_in(Category::optimizer);
  Parameters parameters =
      place(*model, DType::f32, test_device(), 1, GradientStorage::arena, {std::string(backbone)});
  REQUIRE(names_of(parameters.entries()) == Names{"fc.weight", "fc.bias"});
  REQUIRE(parameters.trained_count() == 64 * 10 + 10);
  // Ten floats take one cache line, and the weight takes a whole number of lines.
  constexpr size_t trained_bytes = 64 * 10 * 4 + 64;
  REQUIRE(bytes_in(Category::gradients) - before == trained_bytes);
  const auto optimizer = adam(parameters);
  REQUIRE(bytes_in(Category::optimizer) - optimizer_before == 2 * trained_bytes + 64);
  // The order and the values are the same as in a network without frozen parameters.
  const auto whole_model = make_model(small_resnet);
  const Parameters whole = place(*whole_model, DType::f32, test_device(), 1);
  REQUIRE(parameters.count() == whole.count());
  REQUIRE(names_of(parameters.all_entries()) == names_of(whole.entries()));
  for (size_t i = 0; i < whole.entries().size(); ++i)
    REQUIRE(to_doubles(parameters.all_entries()[i].tensor) ==
            to_doubles(whole.entries()[i].tensor));
  parameters.unfreeze();
  for (const auto& entry : parameters.fixed_entries()) REQUIRE(entry.frozen());
}

TEST_CASE("what is to be frozen is called by whole names", "[freeze]") {
  const auto trained = [](const Names& freeze) {
    const auto model = make_model(small_resnet);
    return names_of(
        place(*model, DType::f32, Device::meta, 1, GradientStorage::arena, freeze).entries());
  };
  const auto model = make_model({.kind = ModelKind::mlp});
  const Names rest{"2.weight", "2.bias", "4.weight", "4.bias", "6.weight", "6.bias"};
  REQUIRE(names_of(place(*model, DType::f32, Device::meta, 1, GradientStorage::arena, {"0"})
                       .entries()) == rest);
  REQUIRE(trained({"backbone", "fc.bias"}) == Names{"fc.weight"});
  REQUIRE(trained({"conv1", "bn1.weight"}).front() == "bn1.bias");
  for (const char* unknown : {"layer", "layer1.0.", "", "layer1.0.conv"})
    REQUIRE_ERROR(trained({"conv1", unknown}),
                  "expected conv1, bn1, layer1, layer2, layer3, layer4, fc, a name within "
                  "one of these, or backbone (all but fc)");
  REQUIRE_ERROR(trained({"backbone", "fc"}), "nothing left to train");
}

TEST_CASE("a frozen BatchNorm is as in evaluation, and keeps nothing", "[freeze]") {
  const auto model = make_model(small_resnet);
  const Parameters parameters =
      place(*model, DType::f32, test_device(), 1, GradientStorage::arena, {"backbone"});
  for (const auto& buffer : parameters.buffer_entries())
    Tensor(buffer.tensor).fill(buffer.name.ends_with("var") ? 2 : 0.25);
  const auto before = to_doubles(parameters.buffers());
  const Batch batch = random_batch({4, 1, 33, 33}, 10, 1, DType::f32);
  const size_t in_use = bytes_in(Category::activations);
  const Tensor y = (*model)(batch.x);
  // The answer [4, 10], and the features [4, 64] from which it is computed.
  REQUIRE(bytes_in(Category::activations) - in_use == 4 * 10 * 4 + 32 + 4 * 64 * 4);
  REQUIRE(to_doubles(y) == to_doubles((*model)(batch.x, Pass::eval())));
  backward(cross_entropy(y, batch.labels));
  REQUIRE(to_doubles(parameters.buffers()) == before);
  // A BatchNorm whose shift is trained does not count as frozen.
  const auto other = make_model(small_resnet);
  const Parameters partly =
      place(*other, DType::f32, test_device(), 1, GradientStorage::arena, {"bn1.weight"});
  (*other)(batch.x);
  REQUIRE(to_doubles(partly.buffer_entries()[0].tensor)[0] != 0);
}

// True if a layer of cnn-gn is frozen. Its last layer is 11.
bool is_frozen(const std::string& layer, const Names& freeze) {
  return std::ranges::find(freeze, layer) != freeze.end() ||
         (freeze.front() == backbone && layer != "11");
}

// Without BatchNorm, freezing parameters does not change the gradients of the others.
TEST_CASE("the trained parameters get the gradients that they get anyway", "[freeze]") {
  const Batch batch = random_batch({8, 1, 8, 8}, 10, 2, DType::f32);
  const ModelOptions cnn{.kind = ModelKind::cnn_gn, .width = 0.5, .image = {1, 8, 8}};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Names& freeze : {Names{"0"}, Names{"1", "4"}, Names{"9"}, Names{"backbone"}}) {
      if (reduced() && dtype == DType::bf16 && freeze.front() != backbone) continue;
      INFO(name(dtype) << " without " << freeze.front());
      const auto steps = [&](const Names& fixed) {
        const auto model = make_model(cnn);
        Parameters parameters =
            place(*model, dtype, test_device(), 3, GradientStorage::arena, fixed);
        const auto optimizer = adamw(parameters);
        Window window(*optimizer, ScheduleOptions{.base = 1e-2}, {.effective_batch_size = 8});
        const Tensor x = converted(batch.x, dtype);
        for (int step = 0; step < 2; ++step) {
          if (fixed.empty())
            for (const auto& entry : parameters.entries())
              if (is_frozen(layer_of(entry.name), freeze)) parameters.freeze(entry.name);
          for (int64_t begin : {0, 4})
            window.backward(cross_entropy((*model)(x.slice(begin, begin + 4)),
                                          batch.labels.slice(begin, begin + 4)),
                            4);
          window.step();
        }
        std::vector<std::vector<double>> values;
        for (const auto& entry : parameters.all_entries())
          values.push_back(to_doubles(entry.tensor));
        return values;
      };
      REQUIRE(steps(freeze) == steps({}));
    }
}

namespace {

struct WayToTrain {
  Precision precision;
  Strategy strategy;
  Recompute recompute;
};

std::vector<WayToTrain> ways_to_train() {
  if (reduced())
    return {{Precision::bf16, Strategy::fused, Recompute::none},
            {Precision::bf16, Strategy::fused, Recompute::all},
            {Precision::fp32, Strategy::moments, Recompute::sqrt},
            {Precision::fp32, Strategy::step_in_backward, Recompute::none}};
  std::vector<WayToTrain> ways;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const Strategy strategy :
         {Strategy::fused, Strategy::separate, Strategy::moments, Strategy::step_in_backward})
      for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all})
        ways.push_back({precision, strategy, recompute});
  return ways;
}

}  // namespace

TEST_CASE("training with frozen layers is exact in every way to train", "[freeze][memory]") {
  const Datasets host{noise(20), noise(4)};
  const Datasets data = place_data(host, test_device());
  const Datasets planned = plan_data(host, test_device(), size_t{1} << 40);
  const Names half{"conv1", "bn1", "layer1", "layer2"};
  std::map<Precision, NamedValues> fused;
  for (const auto& [precision, strategy, recompute] : ways_to_train()) {
    TrainingOptions o = training_of(small_resnet, half);
    o.precision = precision;
    o.strategy = strategy;
    o.recompute = recompute;
    if (strategy == Strategy::step_in_backward) o.batches = {8, 8};
    INFO(name_in(strategy_names(), strategy) << ' ' << name_in(recompute_names(), recompute));
    const Usage predicted = planned_peak(o, planned.train, test_device());
    const Usage measured = peak_of_windows(o, data.train, test_device());
    INFO("measured " << to_string(measured) << ", predicted " << to_string(predicted));
    REQUIRE(measured.bytes == predicted.bytes);
    Trainer trainer(o, data.train, test_device());
    const NamedValues before = weights_of(trainer);
    Observer quiet;
    trainer.run(quiet);
    const NamedValues after = weights_of(trainer);
    for (size_t i = 0; i < before.size(); ++i) {
      const auto& [name, x] = before[i];
      INFO(name);
      const bool is_frozen = std::ranges::any_of(
          half, [&, &name = name](const std::string& f) { return name.starts_with(f + "."); });
      REQUIRE((x == after[i].second) == is_frozen);
    }
    if (strategy == Strategy::fused)
      REQUIRE(fused.try_emplace(precision, after).first->second == after);
  }
}

TEST_CASE("a run with frozen layers goes on from a checkpoint, bit for bit", "[freeze]") {
  const Dataset data = noise(20);
  const TemporaryDirectory folder;
  Observer quiet;
  const auto run = [&](const Names& freeze, int64_t steps, const std::string& directory,
                       bool resume) {
    TrainingOptions o = training_of(small_resnet, freeze);
    o.epochs = 3;
    o.steps = steps;
    o.clip_norm = 1;
    o.ema = 0.9;
    o.noise_scale = true;
    o.checkpoints = {.directory = directory, .every = 1, .resume = resume};
    Trainer trainer(o, data, test_device());
    trainer.resume(quiet);
    trainer.run(quiet);
    return weights_of(trainer);
  };
  const std::string there = (folder.path() / "a").string();
  run({"backbone"}, 2, there, false);
  const NamedValues resumed = run({"backbone"}, 4, there, true);
  REQUIRE(resumed == run({"backbone"}, 4, (folder.path() / "b").string(), false));
  REQUIRE_ERROR(run({"conv1"}, 6, there, true), "freeze: backbone in the checkpoint, conv1 here");
}

}  // namespace accrue::test
