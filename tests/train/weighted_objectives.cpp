// Objectives in which classes and samples count differently: a window is a mean over what its
// samples count, however it is cut into micro-batches.

#include "train/weighted_objectives.h"

#include <cmath>

#include "accumulate/window.h"
#include "core/random.h"
#include "kernels/judged.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_ranks.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/trainer.h"

namespace accrue::test {
namespace weighted_objectives_test {
namespace {

constexpr int64_t sample_count = 8, features = 5, classes = 3;
using Split = std::vector<int64_t>;
const std::vector<Split> splits{{8}, {3, 3, 2}, {2, 2, 2, 2}, Split(8, 1)};

// The first two samples count nothing: their label is of a class of weight 0, or not judged.
const std::vector<int32_t> labels{2, not_judged, 0, 1, 1, 0, 2, 0};
const std::vector<float> counts{1, 2, 0.5f, 0, 3, 0.25f, 1, 4};

Tensor numbers(const Shape& shape, uint64_t seed) {
  const Tensor x = Tensor::empty(shape, DType::f32, Device::cpu, Category::data);
  RandomStream random(seed);
  for (float& v : x.span<float>()) v = float(random.normal());
  return x;
}

// Labels in {0, 1}, and some between.
Tensor truths(const Shape& shape) {
  const Tensor t = numbers(shape, 4);
  for (float& v : t.span<float>()) v = v > 1 ? 0.25f : float(v > 0);
  return t;
}

Dataset data_set() {
  return {
      .name = "rows",
      .source = "made",
      .fields = {{"features", numbers({sample_count, features}, 1), Encoding::number},
                 {.name = "labels",
                  .values = Tensor::from(labels, {sample_count}, Device::cpu),
                  .encoding = Encoding::index,
                  .classes = classes,
                  .class_names = {"sea", "sand", "wood"},
                  .has_not_judged = true},
                 {"targets", numbers({sample_count, classes}, 2), Encoding::number},
                 {"truths", truths({sample_count, classes}), Encoding::number},
                 {"weights", Tensor::from(counts, {sample_count}, Device::cpu), Encoding::weight}}};
}

struct Named {
  std::string name;
  ObjectivePtr objective;
};

std::vector<Named> objectives() {
  const Dataset data = data_set();
  const auto of_labels = [&](CrossEntropyOptions options, const char* weights) {
    return classification(data.field("labels"), {std::move(options), weights, "features"});
  };
  const auto of_numbers = [&](const char* field, NumberLoss loss, double beta,
                              std::vector<double> p) {
    return regression(data.field(field), {loss, beta, std::move(p), "weights"});
  };
  return {{"class weights", of_labels({{0.5, 3, 0}, 0}, "")},
          {"class weights and smoothing", of_labels({{0.5, 3, 0.25}, 0.2}, "")},
          {"not judged", of_labels({{}, 0.1}, "")},
          {"sample weights", of_labels({}, "weights")},
          {"all weights", of_labels({{0.5, 3, 0.25}, 0.1}, "weights")},
          {"mse", of_numbers("targets", NumberLoss::mse, 1, {})},
          {"l1", of_numbers("targets", NumberLoss::l1, 1, {})},
          {"smooth l1", of_numbers("targets", NumberLoss::smooth_l1, 0.5, {})},
          {"bce", of_numbers("truths", NumberLoss::bce, 1, {2, 1, 0.25})}};
}

// In float64, but for the weights.
Samples all_samples() {
  Samples samples = gather(data_set(), 0, sample_count, DType::f64);
  for (Samples::Field& field : samples.fields) field.values = field.values.to(test_device());
  return samples;
}

struct Learner {
  Sequential model;
  std::optional<Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<Window> window;
  ObjectivePtr objective;

  explicit Learner(ObjectivePtr of, WindowOptions options = {}) : objective(std::move(of)) {
    model.add<Linear>(features, 4);
    model.add<Tanh>();
    model.add<Linear>(4, classes);
    options.effective_batch_size = sample_count;
    parameters.emplace(place(model, DType::f64, test_device(), 3));
    optimizer = sgd(*parameters, {.momentum = 0.9});
    window.emplace(*optimizer, ScheduleOptions{.base = 0.5}, options);
  }
  Tensor loss(const Samples& part) const { return objective->loss(model(part["features"]), part); }
  // Rank r of R has the r-th, (r + R)-th, ... of these micro-batches.
  StepReport step(const Split& split, int r = 0, int R = 1) {
    const Samples samples = all_samples();
    int64_t begin = 0;
    for (size_t i = 0; i < split.size(); begin += split[i++]) {
      if (static_cast<int>(i) % R != r) continue;
      const Samples part = samples.slice(begin, begin + split[i]);
      const Tensor weight = objective->weight(part);
      window->backward(loss(part), weight.defined() ? Weight(part.size(), weight) : part.size());
    }
    return window->step();
  }
  Values gradient() const {
    Values all;
    for (const auto& [name, sum, scale] : window->last_gradients())
      for (const double g : to_doubles(sum)) all.push_back(g * scale);
    return all;
  }
};

// The whole batch, without a window.
struct Whole {
  double loss, weight;
  Values gradient;
};

Whole whole(const ObjectivePtr& objective) {
  const Learner learner(objective);
  const Samples samples = all_samples();
  const Tensor loss = learner.loss(samples), weight = objective->weight(samples);
  backward(loss);
  Whole result{loss.item(), weight.defined() ? weight.item() : double(sample_count), {}};
  for (const auto& entry : learner.parameters->entries())
    for (const double g : to_doubles(grad(entry.tensor))) result.gradient.push_back(g);
  return result;
}

// Sums of 8 terms in another order, in float64.
constexpr double tolerance = 1e-15 * 8;

void require_whole(Learner& learner, const StepReport& report, const Whole& expected) {
  REQUIRE_FALSE(report.skipped);
  REQUIRE(report.weight == Approx(expected.weight).epsilon(1e-15));
  REQUIRE(std::abs(report.loss - expected.loss) <= tolerance);
  REQUIRE(largest_difference(learner.gradient(), expected.gradient) <= tolerance);
}

}  // namespace

TEST_CASE("a window is a mean over what its samples count, for every split", "[window]") {
  for (const auto& [name, objective] : objectives()) {
    INFO(name);
    const Whole expected = whole(objective);
    REQUIRE(expected.loss > 0.01);
    for (const Split& split : splits)
      for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
        INFO(split.size() << " micro-batches, strategy " << int(strategy));
        Learner learner(objective, {.strategy = strategy});
        require_whole(learner, learner.step(split), expected);
      }
    for (const int R : {2, 3}) {
      run_ranks(R, [&](Ranks& ranks) {
        Learner learner(objective, {.ranks = &ranks});
        const StepReport report = learner.step({3, 3, 2}, ranks.rank(), R);
        check(std::abs(report.loss - expected.loss) <= tolerance, "a loss of {}", report.loss);
      });
    }
  }
}

TEST_CASE("dividing by samples in place of what they count would be noticed",
          "[window][negative]") {
  for (const auto& [name, objective] : objectives()) {
    INFO(name);
    const Whole expected = whole(objective);
    Learner learner(objective);
    const Samples samples = all_samples();
    int64_t begin = 0;
    for (const int64_t n : {3, 3, 2}) {
      const Samples part = samples.slice(begin, begin + n);
      learner.window->backward(learner.loss(part), n);
      begin += n;
    }
    const StepReport report = learner.window->step();
    REQUIRE(std::abs(report.loss - expected.loss) > 1e-3);
    REQUIRE(largest_difference(learner.gradient(), expected.gradient) > 1e-3);
  }
}

TEST_CASE("a window whose samples count nothing is skipped", "[window]") {
  for (const auto& [name, objective] : objectives()) {
    if (name != "class weights") continue;
    Learner learner(objective);
    const Values before = to_doubles(learner.parameters->values());
    const Samples part = all_samples().slice(0, 2);
    learner.window->backward(learner.loss(part), {part.size(), objective->weight(part)});
    const StepReport report = learner.window->step();
    REQUIRE(report.skipped);
    REQUIRE(report.no_weight);
    REQUIRE(to_doubles(learner.parameters->values()) == before);
  }
}

namespace {

TrainingOptions options_of(const ObjectivePtr& objective, int64_t micro, Precision precision) {
  TrainingOptions options;
  options.model = [] {
    auto model = std::make_unique<Sequential>();
    model->add<Linear>(features, 4);
    model->add<Tanh>();
    model->add<Linear>(4, classes);
    return model;
  };
  options.objective = objective;
  options.batches = {.micro = micro, .effective = sample_count};
  options.precision = precision;
  options.epochs = 3;
  options.schedule.base = 0.01;
  return options;
}

}  // namespace

// Three steps of Adam in float32, with micro-batches of the loader's.
TEST_CASE("a training with weights is the same for every split", "[window]") {
  Datasets data{data_set(), data_set()};
  data = place_data(data, test_device());
  for (const auto& [name, objective] : objectives()) {
    INFO(name);
    const auto trained = [&](int64_t micro) {
      Trainer trainer(options_of(objective, micro, Precision::fp32), data.train, test_device(),
                      data.test);
      Observer none;
      trainer.run(none);
      const Score score = trainer.evaluate(data.test);
      Values all = to_doubles(trainer.training().window().parameters().values());
      all.push_back(score.loss);
      return all;
    };
    const Values expected = trained(sample_count);
    for (const int64_t micro : {3, 1})
      REQUIRE(largest_difference(trained(micro), expected) <= 3e-6);
  }
}

TEST_CASE("weights of samples reach a model in 16 bits as they are", "[data]") {
  const std::vector<float> fine{1.0009766f, 3e-5f, 12345.678f, 0, 7, 1, 2, 3};
  Dataset data = data_set();
  data.fields.back().values = Tensor::from(fine, {sample_count}, Device::cpu);
  const Samples samples = gather(data, 0, sample_count, DType::bf16);
  REQUIRE(samples["weights"].dtype() == DType::f32);
  REQUIRE(samples["features"].dtype() == DType::bf16);
  REQUIRE(to_doubles(samples["weights"]) == Values(fine.begin(), fine.end()));
}

TEST_CASE("the score of weighted classes has what each class has right", "[window]") {
  const Dataset data = data_set();
  const ObjectivePtr objective =
      classification(data.field("labels"), {{{0.5, 3, 0}, 0}, "weights", "features"});
  const Learner learner(objective);
  const Whole expected = whole(objective);
  const NoGrad no_grad;
  const Samples samples = all_samples();
  const Tensor logits = learner.model(samples["features"]);
  const auto score_in = [&](int64_t n) {
    const Tensor sums = Tensor::full({objective->sums()}, 0, DType::f64, test_device());
    for (int64_t begin = 0; begin < sample_count; begin += n)
      objective->add_score(sums, logits.slice(begin, begin + n), samples.slice(begin, begin + n));
    return objective->score(sums.to(Device::cpu).span<double>(), data);
  };
  const Values x = to_doubles(logits);
  Values right(3), all(3);
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0) continue;
    const auto best = std::max_element(x.begin() + long(3 * n), x.begin() + long(3 * n + 3)) -
                      (x.begin() + long(3 * n));
    right[size_t(labels[n])] += best == labels[n];
    all[size_t(labels[n])] += 1;
  }
  for (const int64_t n : {8, 4, 2, 1}) {
    const Score score = score_in(n);
    REQUIRE(std::abs(score.loss - expected.loss) <= tolerance);
    REQUIRE(score["correct"] == right[0] + right[1] + right[2]);
    REQUIRE(score["accuracy"] == Approx(100 * score["correct"] / 7));
    REQUIRE(score["accuracy.sea"] == Approx(100 * right[0] / all[0]));
    REQUIRE(score["balanced_accuracy"] ==
            Approx(100 * (right[0] / all[0] + right[1] / all[1] + right[2] / all[2]) / 3));
  }
  const Score nothing = objective->score(Values(8), data);
  REQUIRE(std::isnan(nothing["accuracy.sand"]));
  REQUIRE_THAT(nothing.describe(), StartsWith("accuracy - (0 of 0), by class - (sea -, sand -"));
}

TEST_CASE("balanced weights let classes count alike", "[data]") {
  const Field field = data_set().field("labels");
  // 3 of sea, 2 of sand, 2 of wood.
  REQUIRE(balanced_class_weights(field) == Values{7.0 / 9, 7.0 / 6, 7.0 / 6});
  Field more = field;
  more.classes = 4;
  REQUIRE(balanced_class_weights(more) == Values{7.0 / 9, 7.0 / 6, 7.0 / 6, 1});
}

TEST_CASE("the score of labels of which several may hold", "[window]") {
  const Field truths{"truths", Tensor::from(std::vector<float>{1, 0, 1, 1}, {2, 2}),
                     Encoding::number};
  const ObjectivePtr objective = regression(truths, {.loss = NumberLoss::bce});
  const Tensor sums = Tensor::full({objective->sums()}, 0, DType::f64, test_device());
  const Samples samples{{{"truths", truths.values.to(test_device())}}};
  const Tensor x =
      Tensor::from(std::vector<float>{2, 1, -1, 3}, {2, 2}, test_device());  // 1 1, 0 1
  objective->add_score(sums, x, samples);
  const Dataset data{.name = "", .source = "", .fields = {truths}};
  const Score score = objective->score(sums.to(Device::cpu).span<double>(), data);
  REQUIRE(score["accuracy"] == 50);
  REQUIRE(score["f1"] == Approx((2.0 / 3 + 2.0 / 3) / 2));
  REQUIRE_THAT(score.describe(), StartsWith("50.00 % of the labels right, F1 0.6667, loss"));
}

TEST_CASE("objectives with weights refuse what does not fit", "[data]") {
  const Dataset data = data_set();
  const Field &of = data.field("labels"), &numbers = data.field("targets");
  REQUIRE_ERROR(classification(of, {{{1, 2}, 0}}), "there are 2 class weights for 3 classes");
  REQUIRE_ERROR(classification(numbers, {}), "the targets are no classes");
  REQUIRE_ERROR(regression(numbers, {.loss = NumberLoss::mse, .positive_weights = {1}}),
                "1 positive weights, which the loss mse does not take");
  REQUIRE_ERROR(regression(numbers, {.loss = NumberLoss::l1, .beta = 2}), "beta is 2");
  REQUIRE_ERROR(regression(numbers, {.loss = NumberLoss::bce, .positive_weights = {1}}),
                "1 positive weights for 3 labels");
  Dataset none = data;
  none.fields.pop_back();
  REQUIRE_ERROR(classification(of, {.weights = "weights"})->check_data(none), "has no weights");
  // The default objective counts samples by their weights.
  REQUIRE(detail::objective_of(data)->name() == "classification, samples by weights");
  REQUIRE(detail::objective_of(none)->name() == "classification");
}

}  // namespace weighted_objectives_test
}  // namespace accrue::test
