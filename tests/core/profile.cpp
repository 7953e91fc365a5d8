// Profile, and the output of train --profile.

#include "core/profile.h"

#include <cmath>
#include <map>
#include <set>

#include "layers/models.h"
#include "tests/support/cli.h"
#include "train/profile_report.h"
#include "train/relative_cost.h"
#include "train/training.h"

namespace accrue::test {
namespace {

using Json = nlohmann::json;
using Name = std::tuple<std::string, std::string, std::string>;  // phase, op, kernel

// Two windows of 5 digits in micro-batches of 2, 2 and 1, with or without a profile.
struct TwoWindows {
  explicit TwoWindows(const TrainingOptions& options, bool profiled = true, int64_t traced = 2)
      : data(make_digits(Split::train, {.train_size = 10}).to(test_device())),
        training(options, data, test_device()) {
    if (profiled) profile.emplace(test_device(), traced);
    training.loader().start_epoch(0);
    while (const MicroBatch* micro_batch = training.loader().next()) {
      training.micro_step(*micro_batch, 0);
      if (micro_batch->ends_window) training.window().enqueue_step();
    }
    training.window().reports(Window::Wait::yes);
    if (profile) profile->stop();
  }

  std::map<Name, Profile::Row> rows() const {
    std::map<Name, Profile::Row> rows;
    for (const Profile::Row& row : profile->rows())
      rows[{std::string(name(row.phase)), std::string(row.op.text()), std::string(row.kernel)}] =
          row;
    return rows;
  }

  Dataset data;
  Training training;
  std::optional<Profile> profile;
};

TrainingOptions options_of(ModelKind kind) {
  TrainingOptions options;
  options.model = model_factory(default_model(kind));
  options.batches = {2, 5};
  return options;
}

}  // namespace

TEST_CASE("a profile has every kernel by its phase and op, and their work", "[engine]") {
  const TrainingOptions options = options_of(ModelKind::cnn_gn);
  const TwoWindows run(options);
  auto rows = run.rows();
  REQUIRE(run.profile->steps() == 2);
  // Counts of calls: six micro-batches with two convolutions and two norms, and two steps.
  const std::map<Name, int64_t> expected{{{"data", "", "gather_samples"}, 6},
                                         {{"forward", "conv2d", "conv_gather"}, 12},
                                         {{"forward", "group_norm", "norm_forward"}, 12},
                                         {{"forward", "cross_entropy", "cross_entropy"}, 6},
                                         {{"backward", "conv2d", "conv_correlate"}, 12},
                                         {{"backward", "conv2d", "conv_scatter"}, 6},
                                         {{"backward", "linear", "linear_backward"}, 12},
                                         {{"step", "", "squared_norm"}, 2},
                                         {{"step", "", "optimizer_step"}, 2}};
  for (const auto& [name, calls] : expected) {
    INFO(std::get<0>(name) << " " << std::get<1>(name) << " " << std::get<2>(name));
    REQUIRE(rows[name].calls == calls);
    REQUIRE(rows[name].us > 0);
    REQUIRE(rows[name].work.bytes > 0);
  }
  double flops = 0, spared = 0;
  for (const auto& [name, row] : rows) {
    flops += row.work.flops;
    spared += row.work.spared_flops;
  }
  // 6 flops for each use of a weight, less the gradient of the images, which is not computed.
  const double uses = 784 * 16 * 9 + 196 * 32 * 16 * 9 + 1568 * 128 + 128 * 10;
  const double of_sample = 6 * uses - 2 * 784 * 16 * 9;
  REQUIRE(flops == 10 * of_sample);
  REQUIRE(training_flops_per_sample(options.model, {1, 1, 28, 28}) == of_sample);
  // On the CPU, Winograd's algorithm computes all three products of the second convolution.
  const double by_winograd = test_device() == Device::cpu ? 6.0 * 196 * 32 * 16 * 9 * 20 / 36 : 0;
  REQUIRE(std::abs(spared - 10 * by_winograd) <= 1e-12 * flops);
  // The step reads w, g, m and v, and writes w, m and v. The arena has gaps.
  const Profile::Row& adam = rows[{"step", "", "optimizer_step"}];
  REQUIRE(adam.work.bytes >= 2 * 28 * 207018);
  REQUIRE(adam.work.bytes <= 2 * 28 * 1.01 * 207018);
}

TEST_CASE("a profile's times add up, and its spans nest", "[engine]") {
  const TwoWindows run(options_of(ModelKind::mlp_small), true, 3);
  const Profile& profile = *run.profile;
  double kernels = 0, phases = 0, table = 0;
  for (const Profile::Row& row : profile.rows()) kernels += row.us;
  // Adds up the spans of each phase; these phases do not nest.
  std::map<Phase, double> spans;
  for (const Profile::Span& span : profile.spans()) {
    if (span.kernel.empty()) spans[span.phase] += span.end_us - span.begin_us;
    REQUIRE(span.end_us <= profile.total_us() * (1 + 1e-9));
  }
  std::string seen;
  for (const Profile::PhaseTime& phase : profile.phases()) {
    INFO(name(phase.phase));
    REQUIRE(phase.kernels_us <= phase.us);
    if (spans.contains(phase.phase)) REQUIRE(phase.us == Approx(spans[phase.phase]));
    phases += phase.us;
    kernels -= phase.kernels_us;
    seen += std::string(name(phase.phase)) + " ";
  }
  REQUIRE(seen == "setup data forward backward step ");
  REQUIRE(kernels == Approx(0).margin(1e-6 * phases));
  REQUIRE(phases == Approx(profile.total_us()));
  for (const ProfileRow& row : rows_of(profile)) table += row.share;
  REQUIRE(table == Approx(1));

  std::vector<double> open_until;
  double before = 0;
  std::string story;
  for (const Profile::Span& span : profile.spans()) {
    REQUIRE(span.begin_us >= before);
    REQUIRE(span.end_us >= span.begin_us);
    before = span.begin_us;
    while (!open_until.empty() && open_until.back() <= span.begin_us) open_until.pop_back();
    for (const double end : open_until) REQUIRE(span.end_us <= end);
    open_until.push_back(span.end_us);
    if (span.kernel.empty())
      story += fmt::format("{} {}.{}|", name(span.phase), span.step, span.micro_batch);
  }
  REQUIRE(story ==
          "data 0.0|data 0.0|forward 0.0|backward 0.0|data 0.1|forward 0.1|backward 0.1|data 0.2|"
          "forward 0.2|backward 0.2|step 0.3|data 1.0|forward 1.0|backward 1.0|data 1.1|"
          "forward 1.1|backward 1.1|data 1.2|forward 1.2|backward 1.2|step 1.3|data 2.0|");
  REQUIRE(profile.spans_left_out() == 0);
}

TEST_CASE("a profile keeps the spans of its first steps alone, and sums all", "[engine]") {
  const TwoWindows run(options_of(ModelKind::mlp_small), true, 1);
  for (const Profile::Span& span : run.profile->spans()) REQUIRE(span.step == 0);
  REQUIRE(run.rows()[{"step", "", "optimizer_step"}].calls == 2);
}

TEST_CASE("a profile changes no bit, with graphs or without", "[engine]") {
  const TrainingOptions options = options_of(ModelKind::mlp_small);
  const TwoWindows with(options), without(options, false);
  const auto weights = [](const TwoWindows& run) {
    const Tensor values = const_cast<Training&>(run.training).parameters().values().to(Device::cpu);
    const auto span = values.span<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  REQUIRE(weights(with) == weights(without));
}

TEST_CASE("a backward's other work does not count for its op", "[engine]") {
  TrainingOptions options = options_of(ModelKind::mlp_small);
  SECTION("the moments that take a gradient") {
    options.strategy = Strategy::moments;
    REQUIRE(TwoWindows(options).rows()[{"backward", "", "adam_fold"}].calls == 4 * 6);
  }
  SECTION("a forward once more") {
    options.recompute = Recompute::all;
    const auto rows = TwoWindows(options).rows();
    REQUIRE(rows.at({"forward", "linear", "linear_forward"}).calls == 3 * 6);
    for (const auto& [name, row] : rows) REQUIRE(std::get<1>(name) != "recompute");
  }
}

TEST_CASE("a profile is the only one of its thread, and of a device that computes", "[engine]") {
  {
    Profile on_meta(Device::meta, 1);
    REQUIRE_ERROR(Profile(Device::meta, 1), "profiled already");
  }
  {
    const Profile first(test_device(), 1);
    REQUIRE_ERROR(Profile(test_device(), 1), "profiled already");
  }
  REQUIRE(Profile::current() == nullptr);
}

TEST_CASE("train --profile writes a table and a trace", "[cli][full]") {
  const Folder folder;
  const std::string train = "train --model mlp-small --micro-batch 4 --accum 2 --steps 3 ";
  const std::string text = succeed(train + "--profile-windows 1 --profile " + (folder / "trace"));
  INFO(text);
  for (const char* part : {"where the time went", "linear_backward", "between kernels",
                           "the machine's rates", "recorded the time of 1 window:"})
    REQUIRE_THAT(text, ContainsSubstring(part));
  const bool says_so = text.find("--profile: CUDA graphs are off") != std::string::npos;
  REQUIRE(says_so == (test_device() == Device::cuda));

  const Json trace = Json::parse(file_bytes(folder / "trace"));
  const Json& about = trace["otherData"];
  REQUIRE(about["model"] == "mlp-small");
  REQUIRE(about["traced_windows"] == 1);
  REQUIRE(about["profile"]["windows"] == 3);
  REQUIRE(about["profile"]["gemm_flops_per_s"].get<double>() > 0);
  double share = 0;
  std::set<std::string> phases;
  for (const Json& row : about["profile"]["rows"]) {
    share += row["share"].get<double>();
    phases.insert(row["phase"]);
  }
  REQUIRE(share == Approx(1));
  REQUIRE(phases ==
          std::set<std::string>{"outside", "data", "forward", "backward", "step", "evaluate"});
  bool linear = false;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    REQUIRE(event["args"]["step"] == 0);
    linear |= event["name"] == "linear" && event["cat"] == "backward" &&
              event["args"]["layer"] == "0 linear 784 -> 256 + relu" &&
              event["args"]["kernel"] == "linear_backward" && event["args"]["flops"] > 0;
  }
  REQUIRE(linear);
}

TEST_CASE("a profile that cannot be written is refused before the run", "[output]") {
  const Folder folder;
  refuse("train --steps 1 --profile /nowhere/trace.json", "/nowhere");
  refuse("train --steps 1 --profile /dev/null", "not a regular file");
  refuse("train --steps 1 --profile-windows 1", "--profile");
  refuse("train --steps 1 --profile " + (folder / "trace") + " --profile-windows 0", "windows");
  REQUIRE(!fs::exists(folder / "trace"));
}

}  // namespace accrue::test
