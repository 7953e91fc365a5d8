// Masks with pixels that are not judged: a window is the mean over its judged pixels, however it is
// cut into micro-batches. tests/golden/unjudged.safetensors is PyTorch's result for the whole
// window as one batch (scripts/golden_unjudged.py).

#include <algorithm>
#include <cmath>
#include <map>

#include "accumulate/window.h"
#include "data/safetensors.h"
#include "images/segmentation.h"
#include "kernels/judged.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/paths.h"
#include "tests/support/thread_ranks.h"
#include "train/game.h"
#include "train/json.h"
#include "train/score.h"

namespace accrue::test {
namespace {

constexpr int64_t window_size = 8, H = 5, W = 6, classes = 3;
constexpr uint8_t unjudged = 255;
using MicroBatchSizes = std::vector<int64_t>;
const std::vector<MicroBatchSizes> splits{{8}, {2, 2, 2, 2}, {3, 3, 2}, MicroBatchSizes(8, 1)};

std::map<std::string, Tensor> golden() {
  const auto tensors = read_safetensors(source_folder + "/tests/golden/unjudged.safetensors");
  return {tensors.begin(), tensors.end()};
}

// Replaces 255 by not_judged.
std::vector<int32_t> golden_labels() {
  const Tensor stored = golden().at("labels");
  const auto values = stored.span<int32_t>();
  std::vector<int32_t> labels(values.begin(), values.end());
  std::ranges::replace(labels, int32_t{unjudged}, not_judged);
  return labels;
}

Tensor as_f64(const Tensor& source) {
  return Tensor::from(to_doubles(source), source.shape(), test_device());
}

Samples golden_samples() {
  return {{{"images", as_f64(golden().at("input"))},
           {"masks", Tensor::from(golden_labels(), {window_size, 1, H, W}, test_device())}}};
}

ObjectivePtr objective_of_loss(const std::string& loss) {
  SegmentationOptions options{.losses = {MaskLoss::cross_entropy}};
  if (loss == "both") options.losses.push_back(MaskLoss::dice);
  return segmentation({.name = "masks",
                       .values = Tensor::empty({window_size, 1, H, W}, DType::i32, Device::meta),
                       .encoding = Encoding::index,
                       .classes = classes,
                       .unjudged_value = unjudged},
                      options);
}

struct Learner {
  Sequential model;
  std::optional<Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<Window> window;
  ObjectivePtr objective;

  explicit Learner(const std::string& loss, WindowOptions options = {})
      : objective(objective_of_loss(loss)) {
    model.add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1});
    model.add<Tanh>();
    model.add<Conv2d>(4, classes, 1);
    options.effective_batch_size = window_size;
    parameters.emplace(
        place(model, DType::f64, test_device(), 0, gradient_storage(options.strategy)));
    for (const auto& entry : parameters->entries())
      entry.tensor.copy_from(as_f64(golden().at("init." + entry.name)));
    optimizer = sgd(*parameters, {.momentum = 0.9});
    window.emplace(*optimizer, ScheduleOptions{.base = 0.5}, options);
  }
  void backward(const Samples& part) {
    const Tensor loss = objective->loss(model(part["images"]), part);
    window->backward(loss, {part.size(), objective->weight(part)});
  }
  // Rank r of R has the r-th, (r + R)-th, ... of these micro-batches.
  StepReport step(const Samples& samples, const MicroBatchSizes& split, int r = 0, int R = 1) {
    int64_t begin = 0;
    for (size_t i = 0; i < split.size(); begin += split[i++])
      if (static_cast<int>(i) % R == r) backward(samples.slice(begin, begin + split[i]));
    return window->step();
  }
};

// The reports of three windows, and the tensors that the golden file has for them.
struct OfWindows {
  std::vector<StepReport> reports;
  std::map<std::string, Values> tensors;
};

OfWindows run(Learner& learner, const std::string& loss, const MicroBatchSizes& split, int r = 0,
              int R = 1) {
  const Samples samples = golden_samples();
  OfWindows outcome;
  for (int step = 0; step < 3; ++step) {
    outcome.reports.push_back(learner.step(samples, split, r, R));
    if (step > 0 || !learner.window->can_abandon()) continue;
    for (const auto& [name, sum, scale] : learner.window->last_gradients()) {
      Values& mean = outcome.tensors["grad." + loss + "." + name] = to_doubles(sum);
      for (double& g : mean) g *= scale;
    }
  }
  for (const auto& entry : learner.parameters->entries())
    outcome.tensors["final." + loss + "." + entry.name] = to_doubles(entry.tensor);
  return outcome;
}

void require_golden(const OfWindows& outcome, const std::string& loss) {
  const auto labels = golden_labels();
  const auto judged = double(std::ssize(labels) - std::ranges::count(labels, not_judged));
  for (size_t step = 0; step < outcome.reports.size(); ++step) {
    const StepReport& report = outcome.reports[step];
    REQUIRE_FALSE(report.skipped);
    REQUIRE(report.samples == window_size);
    REQUIRE(report.weight == Approx(judged / double(H * W)).epsilon(1e-14));
    REQUIRE(std::abs(report.loss - golden().at("loss." + loss).span<double>()[step]) <= 1e-12);
    if (!std::isnan(report.grad_norm))
      REQUIRE(std::abs(report.grad_norm - golden().at("grad_norm." + loss).span<double>()[step]) <=
              1e-12);
  }
  for (const auto& [name, values] : outcome.tensors) {
    INFO(name);
    REQUIRE(largest_difference(values, to_doubles(golden().at(name))) <= 1e-12);
  }
}

}  // namespace

TEST_CASE("a window is PyTorch's mean over its judged pixels, for every split", "[golden]") {
  for (const std::string loss : {"cross-entropy", "both"})
    for (const MicroBatchSizes& split : splits)
      for (const Strategy strategy :
           {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
        if (strategy == Strategy::step_in_backward && split.size() > 1) continue;
        INFO(loss << " in " << split.size() << " micro-batches, strategy " << int(strategy));
        Learner learner(loss, {.strategy = strategy});
        require_golden(run(learner, loss, split), loss);
      }
  Learner dropping("cross-entropy", {.strategy = Strategy::separate,
                                     .loss_scale = 128,
                                     .on_overflow = OnOverflow::drop_micro_batch});
  require_golden(run(dropping, "cross-entropy", {3, 3, 2}), "cross-entropy");
}

TEST_CASE("ranks are PyTorch's mean over the judged pixels of all", "[golden]") {
  const auto compare = [](int R, Strategy strategy, const MicroBatchSizes& split) {
    std::vector<OfWindows> outcomes(static_cast<size_t>(R));
    run_ranks(R, [&](Ranks& ranks) {
      Learner learner("both", {.strategy = strategy, .ranks = &ranks});
      outcomes[static_cast<size_t>(ranks.rank())] = run(learner, "both", split, ranks.rank(), R);
    });
    for (const OfWindows& outcome : outcomes) require_golden(outcome, "both");
  };
  for (const int R : {2, 3})
    for (const MicroBatchSizes& split : splits) compare(R, Strategy::fused, split);
  // The second rank's micro-batch has no judged pixel.
  compare(3, Strategy::step_in_backward, {4, 2, 2});
}

TEST_CASE("recorded micro-steps count the judged pixels of each", "[golden]") {
  Learner learner("cross-entropy");
  const Samples samples = golden_samples();
  // The tensors that every micro-step reads.
  const MicroBatch part{
      {{{"images", Tensor::empty({2, 1, H, W}, DType::f64, test_device(), Category::data)},
        {"masks", Tensor::empty({2, 1, H, W}, DType::i32, test_device(), Category::data)}}}};
  const std::vector<Player> players{
      {.name = "",
       .window = *learner.window,
       .loss = [&](const Samples& s,
                   const Pass&) { return learner.objective->loss(learner.model(s["images"]), s); },
       .weight = [&](const Samples& s) { return learner.objective->weight(s); }}};
  Game game(players);
  const auto turns = game.all_turns();
  OfWindows outcome;
  for (int step = 0; step < 3; ++step) {
    for (int64_t begin = 0; begin < window_size; begin += 2) {
      for (const char* field : {"images", "masks"})
        Tensor(part[field]).copy_from(samples[field].slice(begin, begin + 2));
      game.accumulate(turns.front(), window_of({&part, 1}), {}, 0);
    }
    game.step(turns.front());
    outcome.reports.push_back(learner.window->reports(Window::Wait::yes).at(0));
  }
  for (const auto& entry : learner.parameters->entries())
    outcome.tensors["final.cross-entropy." + entry.name] = to_doubles(entry.tensor);
  require_golden(outcome, "cross-entropy");
}

TEST_CASE("a window without a judged pixel is skipped and leaves no trace", "[golden]") {
  const Samples nothing = golden_samples().slice(4, 6);
  for (const Strategy strategy :
       {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
    Learner learner("both",
                    {.strategy = strategy,
                     .loss_scale = drops_gradients(strategy) ? LossScale() : LossScale::dynamic()});
    const Values before = to_doubles(learner.parameters->values());
    const StepReport report = learner.step(nothing, {2});
    REQUIRE(report.skipped);
    REQUIRE(report.no_weight);
    REQUIRE_FALSE(report.overflow);
    REQUIRE(report.weight == 0);
    REQUIRE(report.step == 0);
    REQUIRE(to_doubles(learner.parameters->values()) == before);
    // The skipped window leaves no trace.
    require_golden(run(learner, "both", {8}), "both");
  }
}

TEST_CASE("moments refuses losses that are means over some pixels", "[golden]") {
  const Samples samples = golden_samples();
  Sequential model;
  model.add<Conv2d>(1, classes, 1);
  Parameters parameters =
      place(model, DType::f64, test_device(), 0, gradient_storage(Strategy::moments));
  const auto optimizer = adam(parameters);
  Window window(*optimizer, ScheduleOptions{},
                {.effective_batch_size = window_size, .strategy = Strategy::moments});
  const ObjectivePtr objective = objective_of_loss("cross-entropy");
  const Tensor loss = objective->loss(model(samples["images"]), samples);
  REQUIRE_ERROR(window.backward(loss, {window_size, objective->weight(samples)}),
                "strategy moments folds each gradient as its share of the window");
  REQUIRE_ERROR(window.backward(loss, {window_size, 3.0}), "expected another strategy");
  REQUIRE_ERROR(window.backward(loss, {window_size, -1.0}), "a micro-batch counts -1");
}

TEST_CASE("a weight that the host knows counts like one on the device", "[golden]") {
  const Samples samples = golden_samples();
  const auto weights_by = [&](bool on_host) {
    Learner learner("cross-entropy");
    int64_t begin = 0;
    for (const int64_t n : {3, 3, 2}) {
      const Samples part = samples.slice(begin, begin + n);
      const Tensor weight = learner.objective->weight(part),
                   loss = learner.objective->loss(learner.model(part["images"]), part);
      if (on_host) learner.window->backward(loss, {n, weight.item()});
      else learner.window->backward(loss, {n, weight});
      begin += n;
    }
    learner.window->step();
    return to_doubles(learner.parameters->values());
  };
  REQUIRE(weights_by(true) == weights_by(false));
}

TEST_CASE("a class that is nowhere has no score", "[data]") {
  const Dataset data{.name = "",
                     .source = "",
                     .fields = {{.name = "masks",
                                 .values = Tensor::empty({2, 1, 2, 2}, DType::i32, Device::cpu),
                                 .encoding = Encoding::index,
                                 .classes = 3,
                                 .class_names = {"sea", "sand", "wood"}}}};
  const ObjectivePtr objective = segmentation(data.field("masks"));
  // The loss, and for each class the number of pixels that are found and in the mask, found, and in
  // the mask. Sand is neither found nor in the mask.
  const std::vector<double> sums{0, 2, 4, 4, 0, 0, 0, 0, 4, 4};
  const Score score = objective->score(sums, data);
  REQUIRE(score["dice"] == (0.5 + 0) / 2);
  REQUIRE(score["iou"] == Approx((2.0 / 6 + 0) / 2));
  REQUIRE(std::isnan(score["dice.sand"]));
  REQUIRE(std::isnan(score["iou.sand"]));
  REQUIRE(to_json(score)["dice.sand"].dump() == "null");
  REQUIRE_THAT(score.describe(),
               StartsWith("Dice 0.2500 (sea 0.5000, sand -, wood 0.0000), IoU 0.1667"));
  const Score nothing = objective->score(std::vector<double>(10), data);
  REQUIRE(std::isnan(nothing["dice"]));
  REQUIRE_THAT(nothing.describe(), StartsWith("Dice - (sea -, sand -, wood -), IoU -"));
}

TEST_CASE("scores leave out what is not judged", "[golden]") {
  const Samples samples = golden_samples();
  const NoGrad no_grad;
  for (const std::string loss : {"cross-entropy", "both"}) {
    Learner learner(loss);
    const Tensor logits = learner.model(samples["images"]);
    const auto score_in = [&](int64_t n) {
      const Tensor sums = Tensor::full({learner.objective->sums()}, 0, DType::f64, test_device());
      for (int64_t begin = 0; begin < window_size; begin += n)
        learner.objective->add_score(sums, logits.slice(begin, begin + n),
                                     samples.slice(begin, begin + n));
      const Dataset data{.name = "",
                         .source = "",
                         .fields = {{.name = "masks",
                                     .values = samples["masks"],
                                     .encoding = Encoding::index,
                                     .classes = classes}}};
      return learner.objective->score(sums.to(Device::cpu).span<double>(), data);
    };
    // The IoU, computed by hand.
    const Values x = to_doubles(logits);
    const auto labels = golden_labels();
    double mean_iou = 0;
    for (int k = 0; k < classes; ++k) {
      double both = 0, either = 0;
      for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == not_judged) continue;
        const size_t P = H * W, at = i / P * classes * P + i % P;
        int best = 0;
        for (int c = 1; c < classes; ++c)
          if (x[at + size_t(c) * P] > x[at + size_t(best) * P]) best = c;
        both += best == k && labels[i] == k;
        either += best == k || labels[i] == k;
      }
      mean_iou += both / either / double(classes);
    }
    for (const int64_t n : {8, 4, 2, 1}) {
      const Score score = score_in(n);
      REQUIRE(std::abs(score.loss - golden().at("loss." + loss).span<double>()[0]) <= 1e-12);
      REQUIRE(score["iou"] == Approx(mean_iou));
    }
  }
}

}  // namespace accrue::test
