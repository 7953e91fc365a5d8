#include "train/objective.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "accumulate/accumulate.h"
#include "kernels/cross_entropy.h"
#include "kernels/losses.h"
#include "train/weighted_objectives.h"

namespace accrue {
namespace {

class Classification : public Objective {
 public:
  Classification(std::string input, std::string labels)
      : input_(std::move(input)), labels_(std::move(labels)) {}
  std::string name() const override { return "classification"; }
  std::string input() const override { return input_; }
  std::vector<std::string> targets() const override { return {labels_}; }
  Tensor loss(const Tensor& logits, const Samples& samples) const override {
    return cross_entropy(logits, samples[labels_]);
  }
  int64_t sums() const override { return 2; }
  void add_score(const Tensor& sums, const Tensor& logits, const Samples& samples) const override {
    accrue::add_score(sums, logits, samples[labels_]);
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double samples = double(data.size()), accuracy = 100 * sums[1] / samples;
    return {
        .loss = sums[0] / samples,
        .samples = data.size(),
        .metrics = {{"correct", sums[1], true}, {"accuracy", accuracy}},
        .text = fmt::format("accuracy {:.2f} % ({} of {})", accuracy, int64_t(sums[1]), samples)};
  }

 private:
  const std::string input_, labels_;
};

class Regression : public Objective {
 public:
  Regression(std::string input, std::string targets)
      : input_(std::move(input)), targets_(std::move(targets)) {}
  std::string name() const override { return "regression"; }
  std::string input() const override { return input_; }
  std::vector<std::string> targets() const override { return {targets_}; }
  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    const Tensor& target = samples[targets_];
    check(answer.shape() == target.shape(),
          "the network answers with {}, but the {} of these samples are {}: expected as many "
          "answers as there are numbers, or classes as integers to tell apart",
          answer.shape(), targets_, target.shape());
    return mse_loss(answer, target);
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double loss = sums[0] / double(data.size());
    return {.loss = loss, .samples = data.size(), .metrics = {{"rmse", std::sqrt(loss)}}};
  }

 private:
  const std::string input_, targets_;
};

}  // namespace

double Score::operator[](std::string_view metric) const {
  const auto found = std::ranges::find(metrics, metric, &Metric::name);
  check(found != metrics.end(), "a score of {} has no {}", describe(), metric);
  return found->value;
}

std::string Score::describe() const {
  std::vector<std::string> parts;
  if (!text.empty()) parts.push_back(text);
  else
    for (const Metric& metric : metrics)
      parts.push_back(fmt::format("{} {:.4f}", metric.name, metric.value));
  parts.push_back(fmt::format("loss {:.4f}", loss));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Tensor Objective::answer(const Layer& model, const Samples& samples, const Pass& pass) const {
  const std::string seen = input();
  return model(seen.empty() ? samples.fields.front().values : samples[seen], pass);
}

std::vector<std::string> Objective::inputs() const {
  std::string seen = input();
  return seen.empty() ? std::vector<std::string>() : std::vector{std::move(seen)};
}

Loss Objective::cost(const Layer& model, const Samples& samples, const Pass& pass) const {
  return loss(answer(model, samples, pass), samples);
}

std::vector<NamedLoss> Objective::losses(const Layer&, const Samples&, const Pass&) const {
  fail("objective {} has no losses that count apart", name());
}

std::vector<Tensor> Objective::weights(const Samples& samples) const { return {weight(samples)}; }

Tensor Objective::window_loss(const Tensor&) const {
  fail("objective {} has no loss of a window", name());
}

Tensor Objective::weight(const Samples&) const { return {}; }

void Objective::add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const {
  add_mean(sums, loss(answer, samples), samples.size());
}

void Objective::add_score_of(const Tensor& sums, const Layer& model, const Samples& samples,
                             const Pass& pass) const {
  add_score(sums, answer(model, samples, pass), samples);
}

void Objective::add_score_of_all(const Tensor&, const Tensor&) const {
  fail("objective {} does not score all samples at once", name());
}

void Objective::add_mean(const Tensor& sums, const Tensor& mean, int64_t samples) {
  accumulate(sums.view(), mean.reshape({1}).view(), double(samples));
}

Score Objective::score(std::span<const double> sums, const Dataset& data) const {
  return {.loss = sums[0] / double(data.size()), .samples = data.size()};
}

void Objective::check_data(const Dataset& data) const {
  for (const std::string& field : targets()) data.field(field);
  for (const std::string& field : inputs()) data.field(field);
}

void Objective::add_on_host(const Tensor& sums,
                            const std::function<std::vector<double>()>& compute) {
  if (is_meta(sums.device())) return;
  const std::vector<double> values = compute();
  Tensor host = sums.device() == Device::cpu ? sums : sums.to(Device::cpu);
  const auto all = host.span<double>();
  check(values.size() == all.size(), "{} values for {} sums of a score", values.size(), all.size());
  std::ranges::transform(all, values, all.begin(), std::plus());
  if (sums.device() != Device::cpu) Tensor(sums).copy_from(host);
}

ObjectivePtr classification(std::string input, std::string labels) {
  return std::make_shared<Classification>(std::move(input), std::move(labels));
}
ObjectivePtr regression(std::string input, std::string targets) {
  return std::make_shared<Regression>(std::move(input), std::move(targets));
}

ObjectivePtr detail::objective_of(const Dataset& data) {
  check(data.has("labels"),
        "data set '{}' has no labels: expected an objective that says what is to be learnt",
        data.name);
  const Field& labels = data.field("labels");
  const bool are_simple = labels.values.shape().rank() == 1 && !labels.has_not_judged;
  if (!data.has("weights") && are_simple) return classification();
  return classification(labels, {.weights = data.has("weights") ? "weights" : ""});
}

}  // namespace accrue
