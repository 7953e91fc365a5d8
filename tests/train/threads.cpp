// Results do not depend on the number of the CPU's threads.

#include "images/digits.h"
#include "images/shapes.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/objective.h"
#include "tests/support/thread_scope.h"
#include "train/training.h"

namespace accrue::test {
namespace {

struct Outcome {
  std::vector<double> weights;
  size_t peak;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const Dataset& data, const ModelOptions& model, Precision precision,
              Strategy strategy, int threads, int64_t steps) {
  const ThreadScope scope(threads);
  TrainingOptions options;
  options.model = model_factory(model);
  options.objective = objective_on(data);
  options.precision = precision;
  options.strategy = strategy;
  options.batches = {.micro = 5, .effective = 8};  // the last micro-batch is smaller
  ledger(Device::cpu).reset_peak();
  Training training(options, data, Device::cpu);
  training.loader().start_epoch(0);
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t samples = 0; samples < options.batches.effective;) {
      const MicroBatch* batch = training.loader().next();
      training.micro_step(*batch, 0);
      samples += batch->size();
    }
    training.window().step();
  }
  return {to_doubles(training.parameters().values()), ledger(Device::cpu).peak().total()};
}

Dataset data_for(ModelKind kind) {
  return kind == ModelKind::unet ? make_shapes(Split::train) : make_digits(Split::train);
}

void check_threads(int64_t steps, double width, const std::vector<int>& counts) {
  for (const auto& [name, kind] : model_names()) {
    const Dataset data = data_for(kind);
    const bool has_masks = kind == ModelKind::unet;
    const ModelOptions model{.kind = kind, .width = width, .classes = has_masks ? 1 : 10};
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      CAPTURE(name, static_cast<int>(precision));
      const Outcome alone = train(data, model, precision, Strategy::fused, 1, steps);
      for (const int count : counts)
        REQUIRE(train(data, model, precision, Strategy::fused, count, steps) == alone);
    }
  }
}

}  // namespace

TEST_CASE("the same bits and the same peak on any number of threads", "[threads]") {
  if (sanitized()) check_threads(1, 0.5, {3});
  else check_threads(2, 0.5, {2, 3, 8});
}

TEST_CASE("the same bits after twenty steps", "[.][thorough]") {
  if (test_device() == Device::cpu) check_threads(20, 1, {2, 3, 8});
}

TEST_CASE("the same bits on any number of threads, by strategy", "[threads]") {
  const Dataset data = make_digits(Split::train);
  for (const Strategy strategy : {Strategy::separate, Strategy::moments}) {
    CAPTURE(static_cast<int>(strategy));
    const auto run = [&](int count) {
      return train(data, {.kind = ModelKind::cnn_gn}, Precision::fp32, strategy, count, 3);
    };
    const Outcome alone = run(1);
    for (const int count : {2, 3, 8}) REQUIRE(run(count) == alone);
  }
}

}  // namespace accrue::test
