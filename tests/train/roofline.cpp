#include "train/roofline.h"

#include <nlohmann/json.hpp>

#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "train/relative_cost.h"
#include "train/training.h"

namespace accrue::test {
namespace {

constexpr int64_t roofline_m = 4, roofline_K = 3;

TrainingOptions options_of_roofline(ModelKind kind, Precision precision = Precision::fp32) {
  TrainingOptions options;
  options.model = model_factory(default_model(kind));
  options.batches = {roofline_m, roofline_K * roofline_m};
  options.precision = precision;
  return options;
}

Dataset digits_of_roofline() {
  return make_digits(Split::train, {.train_size = roofline_K * roofline_m, .test_size = 1});
}

const RooflineRow& row_of(const Roofline& roofline, const std::string& kernel) {
  for (const RooflineRow& row : roofline.rows)
    if (row.kernel == kernel) return row;
  throw Error("no kernel " + kernel);
}

}  // namespace

TEST_CASE("a roofline has the operations and bytes of a micro-step and of a step", "[plan]") {
  const Dataset data = digits_of_roofline();
  const TrainingOptions options = options_of_roofline(ModelKind::mlp);
  const Roofline roofline = roofline_of(options, data);
  REQUIRE(roofline.micro_steps == roofline_K);
  double flops = 0, micro_step = 0, step = 0;
  for (const RooflineRow& row : roofline.rows) {
    flops += row.flops;
    (row.in_step ? step : micro_step) += row.least_us;
    REQUIRE(row.least_us >= 1e6 * std::max(row.flops / 67e12, row.bytes / 4.8e12) * (1 - 1e-12));
    REQUIRE(row.measured_us == 0);
  }
  const Field& seen = data.field("images");
  REQUIRE(flops == double(roofline_m) *
                       training_flops_per_sample(options.model, seen.shape_of(1), seen.encoding));
  REQUIRE(std::abs(roofline.window_us() - (roofline_K * micro_step + step)) < 1e-9);
  REQUIRE(roofline.calls(true) == 5);
  // Adam reads and writes parameters and two moments, and reads gradients, of 4 bytes each; the
  // norm reads gradients.
  const RooflineRow &adam = row_of(roofline, "optimizer_step"),
                    &norm = row_of(roofline, "squared_norm");
  REQUIRE(std::abs(adam.bytes / norm.bytes - 7) < 0.1);
  // The least time of small tensors is that of their bytes.
  REQUIRE(std::abs(adam.least_us - 1e6 * adam.bytes / 4.8e12) < 1e-6);
}

TEST_CASE("a roofline knows the rates of a precision, and windows of one micro-step", "[plan]") {
  REQUIRE(rates_of_h200(Precision::bf16).flops_per_s == 989e12);
  REQUIRE(rates_of_h200(Precision::fp16).flops_per_s == 989e12);
  REQUIRE(rates_of_h200(Precision::tf32).flops_per_s == 495e12);
  REQUIRE(rates_of_h200(Precision::fp32).flops_per_s == 67e12);
  const Dataset data = digits_of_roofline();
  TrainingOptions whole = options_of_roofline(ModelKind::cnn, Precision::bf16);
  const Roofline parts = roofline_of(whole, data);
  whole.batches = {roofline_K * roofline_m, roofline_K * roofline_m};
  const Roofline one = roofline_of(whole, data);
  REQUIRE(one.micro_steps == 1);
  const RooflineRow &small = row_of(parts, "conv_correlate"), &large = row_of(one, small.kernel);
  REQUIRE(large.calls == small.calls);
  REQUIRE(large.flops == double(roofline_K) * small.flops);
}

TEST_CASE("a roofline shows what a profile has measured beside it", "[plan]") {
  const Dataset data = digits_of_roofline();
  const TrainingOptions options = options_of_roofline(ModelKind::mlp);
  Roofline roofline = roofline_of(options, data);
  Training training(options, data, Device::cpu);
  training.loader().start_epoch(0);
  Profile profile(Device::cpu, 0);
  while (const MicroBatch* part = training.loader().next()) training.micro_step(*part, 0);
  training.window().enqueue_step();
  profile.stop();
  add_measured(roofline, profile);
  double in_micro_steps = 0;
  for (const Profile::Row& row : profile.rows())
    if (row.kernel == "linear_forward") in_micro_steps += row.us;
  REQUIRE(in_micro_steps > 0);
  const double found = row_of(roofline, "linear_forward").measured_us;
  REQUIRE(std::abs(found - in_micro_steps / roofline_K) < 1e-6);
  REQUIRE(row_of(roofline, "optimizer_step").measured_us > 0);
  const std::string table = roofline_table(roofline);
  REQUIRE_THAT(table, ContainsSubstring("for a micro-step of 4 samples"));
  REQUIRE_THAT(table, ContainsSubstring("a window of 3 micro-steps takes"));
  const auto json = roofline_json(roofline);
  REQUIRE(json["rows"].size() == roofline.rows.size());
  REQUIRE(json["micro_steps"] == roofline_K);
}

TEST_CASE("a roofline refuses windows that it cannot cut", "[plan]") {
  TrainingOptions options = options_of_roofline(ModelKind::cnn_bn);
  options.batch_norm = BatchNormOver::window;
  REQUIRE_ERROR(roofline_of(options, digits_of_roofline()), "see a whole window");
}

}  // namespace accrue::test
