// The promise of accrue plan: its choice fits, and a micro-batch with one more sample does not.

#include "train/plan.h"

#include <array>

#include "accrue/domains.h"
#include "images/digits.h"
#include "images/shapes.h"
#include "job/memory_advice.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/relative_cost.h"

namespace accrue::test {
namespace {

constexpr int64_t N = 100;

Datasets data_for(const Request& options) {
  if (options.model_name == "unet") {
    const BuiltInOptions sizes{.train_size = N, .test_size = 10};
    return {make_shapes(Split::train, sizes), make_shapes(Split::test, sizes)};
  }
  const BuiltInOptions sizes{.train_size = N, .test_size = 10};
  return {make_digits(Split::train, sizes), make_digits(Split::test, sizes)};
}

Request options_for(ModelKind model, int64_t effective) {
  Request options(all_domains());
  options.model_name = name(model);
  options.effective_batch = effective;
  options.micro_batch = auto_micro_batch;
  return options;
}

Plan plan(const Request& options, size_t memory) {
  return plan_windows(options.to_plan(data_for(options).train),
                      plan_data(data_for(options), test_device(), memory), test_device(), memory,
                      only_choice(options));
}

size_t peak(Request options, int64_t micro, size_t memory) {
  options.micro_batch = micro;
  const Datasets planned = plan_data(data_for(options), test_device(), memory);
  return planned_peak(options.training(planned.train), planned.train, test_device()).total();
}

// True if two windows really run in this much memory.
bool runs(Request options, int64_t micro, size_t memory) {
  options.micro_batch = micro;
  Ledger& device = ledger(test_device());
  // The limit comes on top of the memory that other tests keep.
  const size_t beside = device.current().total();
  const Datasets host = data_for(options);
  device.set_limit(memory + beside);
  bool ran = true;
  try {
    const Datasets data = place_data(host, test_device());
    peak_of_windows(options.training(host.train), data.train, test_device());
  } catch (const OutOfMemory&) {
    ran = false;
  }
  device.set_limit(std::nullopt);
  return ran;
}

// True if everything takes long here: tests then take one model of each kind, and few sizes.
bool is_slow() { return on_runner() || sanitized(); }

// For images of 28x28 the last stage of these networks is one pixel, but BatchNorm needs two or
// more.
bool takes_one_image(ModelKind model) {
  return model != ModelKind::resnet18 && model != ModelKind::resnet34 &&
         model != ModelKind::resnet50;
}

std::vector<ModelKind> models() {
  if (is_slow()) WARN("on the runner and under sanitizers only some models, sizes and K");
  if (on_runner() && reduced()) return {ModelKind::cnn};
  if (on_runner()) return {ModelKind::mlp_small, ModelKind::cnn};
  if (sanitized()) return {ModelKind::mlp, ModelKind::cnn_bn, ModelKind::unet};
  std::vector<ModelKind> all;
  // Smaller models cover GroupNorm, too.
  for (const auto& [name, model] : model_names())
    if (name.find("-gn") == name.npos || model == ModelKind::cnn_gn) all.push_back(model);
  return all;
}

// The strategies with every choice of recomputation, or each with one choice where tests are
// reduced().
std::vector<std::pair<Strategy, Recompute>> ways(const std::vector<Strategy>& strategies) {
  constexpr std::array recomputes{Recompute::none, Recompute::sqrt, Recompute::all};
  std::vector<std::pair<Strategy, Recompute>> all;
  for (size_t i = 0; i < strategies.size(); ++i)
    for (size_t j = 0; j < recomputes.size(); ++j)
      if (!reduced() || j == i % recomputes.size()) all.emplace_back(strategies[i], recomputes[j]);
  return all;
}

}  // namespace

TEST_CASE("a plan's choice runs in its memory, and one sample more does not", "[plan]") {
  const int64_t effective = is_slow() ? 10 : 16;
  const auto check_size = [&](const Request& options, int64_t size) {
    // A limit between the peaks of two sizes, with room for the data on the device.
    const size_t plenty = size_t{1} << 40;
    const size_t memory = peak(options, size, plenty) + 100;
    const Plan plan = test::plan(options, memory);
    INFO(options.model_name << ", " << name_in(strategy_names(), options.strategy) << ", "
                            << name_in(recompute_names(), options.recompute) << ", " << memory
                            << " bytes, as for " << size);
    REQUIRE(plan.recommended());
    const Alternative& choice = *plan.recommended();
    INFO("chosen: " << choice.batches.micro);
    REQUIRE(choice.batches.effective == effective);
    REQUIRE(choice.batches.micro >= size);
    REQUIRE(runs(options, choice.batches.micro, memory));
    REQUIRE(choice.batches.micro < effective);
    REQUIRE(!runs(options, choice.batches.micro + 1, memory));
  };
  for (const ModelKind model : models()) {
    if (!takes_one_image(model)) continue;
    Request options = options_for(model, effective);
    if (!is_slow())
      for (const int64_t size : {1, 13}) check_size(options, size);
    for (const auto& [strategy, recompute] :
         ways({Strategy::fused, Strategy::separate, Strategy::moments})) {
      options.strategy = strategy;
      options.recompute = recompute;
      check_size(options, is_slow() ? 3 : 6);
    }
  }
}

TEST_CASE("the peak is predicted to the byte, for every model, K, strategy and recomputation",
          "[plan][memory]") {
  std::vector<int64_t> all_K{1, 2, 7, 16};
  if (is_slow()) all_K = {1, 2};
  for (const ModelKind model : models()) {
    Request options = options_for(model, 1);
    if (!takes_one_image(model)) options.network.width = 0.125;
    options.micro_batch = 2;
    const Datasets host = data_for(options);
    const Datasets data = place_data(host, test_device());
    const Datasets planned = plan_data(host, test_device(), size_t{1} << 40);
    for (const int64_t K : all_K)
      for (const auto& [strategy, recompute] :
           ways({Strategy::fused, Strategy::separate, Strategy::moments, Strategy::step_in_backward,
                 Strategy::bf16_sum})) {
        if (strategy == Strategy::step_in_backward && K > 1) continue;
        options.strategy = strategy;
        options.recompute = recompute;
        options.effective_batch = options.micro_batch * K;
        const TrainingOptions run = options.training(host.train);
        const Usage measured = peak_of_windows(run, data.train, test_device());
        const Usage predicted = planned_peak(run, planned.train, test_device());
        INFO(name(model) << ", K " << K << ", " << name_in(strategy_names(), strategy)
                         << ", recompute " << name_in(recompute_names(), recompute) << ": measured "
                         << to_string(measured) << ", predicted " << to_string(predicted));
        REQUIRE(measured.bytes == predicted.bytes);
      }
  }
}

TEST_CASE("the peak is predicted to the byte with an average and a noise scale", "[plan][memory]") {
  Request options = options_for(ModelKind::mlp_small, 16);
  options.micro_batch = 4;
  const Datasets host = data_for(options);
  const Datasets data = place_data(host, test_device());
  const Datasets planned = plan_data(host, test_device(), size_t{1} << 40);
  const Usage plain = planned_peak(options.training(host.train), planned.train, test_device());
  options.noise_scale = true;
  for (const Strategy strategy : {Strategy::fused, Strategy::separate, Strategy::moments}) {
    options.strategy = strategy;
    options.ema = 0.999;
    if (strategy == Strategy::moments) options.noise_scale = false;
    const TrainingOptions run = options.training(host.train);
    const Usage measured = peak_of_windows(run, data.train, test_device());
    const Usage predicted = planned_peak(run, planned.train, test_device());
    INFO("measured " << to_string(measured) << ", predicted " << to_string(predicted));
    REQUIRE(measured.bytes == predicted.bytes);
    // The average takes one more arena.
    REQUIRE(predicted[Category::optimizer] ==
            plain[Category::optimizer] + plain[Category::parameters]);
  }
}

TEST_CASE("a plan finds the largest of all micro-batches that fit", "[plan]") {
  if (test_device() != Device::cpu) return;  // the search is the same
  for (const ModelKind model : {ModelKind::mlp_small, ModelKind::cnn_gn}) {
    const Request options = options_for(model, 50);
    std::vector<size_t> peaks{0};
    for (int64_t micro = 1; micro <= 50; ++micro)
      peaks.push_back(peak(options, micro, size_t{1} << 40));
    for (size_t micro = 1; micro <= 50; ++micro) {
      const size_t memory = peaks[micro];
      size_t largest = 50;
      while (peaks[largest] > memory) --largest;
      INFO(name(model) << ", " << memory << " bytes");
      REQUIRE(test::plan(options, memory).recommended()->batches.micro == int64_t(largest));
    }
  }
}

TEST_CASE("a plan's alternatives are complete, sorted and marked", "[plan]") {
  const Request options = options_for(ModelKind::cnn, 50);
  const size_t memory = peak(options, 20, size_t{1} << 40);
  const Plan plan = plan_windows(options.to_plan(data_for(options).train),
                                 plan_data(data_for(options), test_device(), memory), test_device(),
                                 memory, all_choices({}, test_device()));
  REQUIRE(plan.recommended());
  for (const Alternative& a : plan.alternatives) {
    REQUIRE(a.fits == (a.peak.total() <= memory));
    REQUIRE(a.batches.effective == 50);
    REQUIRE(a.relative_cost > 0.95);  // a step in backward reads no gradients for their norm
    // Alternatives are sorted by the cost in hundredths.
    if (a.fits) REQUIRE(plan.alternatives.front().relative_cost < a.relative_cost + 0.01);
  }
  const auto whole = std::ranges::find_if(plan.alternatives, [](const Alternative& a) {
    return a.batches.micro == 50 && a.strategy == Strategy::fused && a.recompute == Recompute::none;
  });
  REQUIRE(whole != plan.alternatives.end());
  REQUIRE(whole->relative_cost == 1);
  REQUIRE(!whole->fits);
  // The alternatives have the largest micro-batches, so none of them takes the least memory.
  for (const Alternative& a : plan.alternatives)
    if (facts_of(a.strategy).differs.empty())
      REQUIRE(plan.smallest().peak.total() < a.peak.total());
  REQUIRE(plan.smallest().peak.total() ==
          plan_windows(options.to_plan(data_for(options).train),
                       plan_data(data_for(options), test_device(), memory), test_device(), 1,
                       all_choices({}, test_device()))
              .smallest()
              .peak.total());
}

TEST_CASE("the cost of a window follows what is computed again, and what is frozen", "[plan]") {
  const Request options = options_for(ModelKind::unet, 8);
  const Datasets planned = plan_data(data_for(options), test_device());
  TrainingOptions training = options.to_plan(planned.train);
  training.batches.micro = 8;
  const auto cost = [&](Recompute recompute) {
    training.recompute = recompute;
    return window_cost(training, planned.train, test_device());
  };
  const double none = cost(Recompute::none), all = cost(Recompute::all);
  const double sqrt = cost(Recompute::sqrt);
  // A forward is a third of the cost. `all` repeats all of it except the head and the second half
  // of the finest decoder, and the first halves once more. sqrt repeats the forward of the levels
  // below, too.
  REQUIRE(all > 1.2 * none);
  REQUIRE(all < 2 * none);
  REQUIRE(sqrt > 1.05 * all);
  REQUIRE(sqrt < all + none / 3);
  training.freeze = {"encoder"};
  REQUIRE(cost(Recompute::none) < none);
  training.freeze = {std::string(backbone)};  // only the head has gradients
  REQUIRE(cost(Recompute::none) > 0.3 * none);
  REQUIRE(cost(Recompute::none) < 0.37 * none);
}

TEST_CASE("the allocation that decides a peak is the one that does not fit in less", "[plan]") {
  const Request options = options_for(ModelKind::cnn, 50);
  const Datasets planned = plan_data(data_for(options), test_device());
  TrainingOptions training = options.to_plan(planned.train);
  training.batches.micro = 10;
  const MemoryShortage deciding = deciding_allocation(training, planned.train, test_device());
  const Usage peak = planned_peak(training, planned.train, test_device());
  REQUIRE(deciding.in_use.total() + deciding.requested.bytes == peak.total());
  REQUIRE(deciding.requested.phase == Phase::backward);
  REQUIRE(!deciding.largest.empty());
  REQUIRE(ledger(meta_of(test_device())).limit() == std::nullopt);
}

TEST_CASE("if nothing fits, the plan has the choice that needs least", "[plan]") {
  const Plan plan = test::plan(options_for(ModelKind::mlp, 50), 1 << 20);
  REQUIRE(plan.recommended() == nullptr);
  REQUIRE(plan.smallest().peak.total() > 1 << 20);
  REQUIRE(runs(options_for(ModelKind::mlp, 50), plan.smallest().batches.micro,
               plan.smallest().peak.total()));
}

TEST_CASE("options that cannot be are refused before planning", "[plan]") {
  Request options = options_for(ModelKind::mlp_small, 50);
  options.beta1 = 1;
  REQUIRE_ERROR(plan(options, 1 << 30), "beta1 is 1");
  options = options_for(ModelKind::mlp_small, N + 1);
  REQUIRE_ERROR(plan(options, 1 << 30), "larger than the data");
  options = options_for(ModelKind::mlp_small, 50);
  options.accum = 4;
  REQUIRE_ERROR(plan(options, 1 << 30), "instead of --accum 4");
  options.accum.reset();
  options.memory_limit = "1MiB";
  REQUIRE_ERROR(with_micro_batch_chosen(options, data_for(options), test_device(), {}),
                "nothing fits");
}

}  // namespace accrue::test
