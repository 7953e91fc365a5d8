#include "train/weighted_objectives.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/judged.h"
#include "kernels/losses.h"
#include "kernels/weighted_losses.h"
#include "train/place_classification.h"

namespace accrue {
namespace {

const double unknown = std::numeric_limits<double>::quiet_NaN();

double ratio(double part, double all) { return all == 0 ? unknown : part / all; }
std::string percent(double part) {
  return std::isnan(part) ? "-" : fmt::format("{:.2f} %", 100 * part);
}

// Numbers as a run's identity has them.
std::string listed(const std::vector<double>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

class WeightedClassification : public Objective {
 public:
  WeightedClassification(const Field& labels, ClassificationOptions options)
      : C_(labels.classes),
        may_be_unjudged_(labels.unjudged_value || labels.has_not_judged),
        labels_(labels.name),
        options_(std::move(options)) {
    for (int64_t c = 0; c < C_; ++c) names_.push_back(labels.class_name(c));
  }

  std::string name() const override {
    const auto& [class_weights, smoothing] = options_.cross_entropy;
    std::string text = "classification";
    if (!class_weights.empty()) text += ", weights " + listed(class_weights);
    if (smoothing > 0) text += fmt::format(", smoothing {}", smoothing);
    if (!options_.weights.empty()) text += ", samples by " + options_.weights;
    return text;
  }
  std::string input() const override { return options_.input; }
  std::vector<std::string> targets() const override {
    std::vector<std::string> fields{labels_};
    if (!options_.weights.empty()) fields.push_back(options_.weights);
    return fields;
  }

  Tensor loss(const Tensor& logits, const Samples& samples) const override {
    return cross_entropy(logits, samples[labels_], options_.cross_entropy, weights_in(samples));
  }
  Tensor weight(const Samples& samples) const override {
    return counts_alike() ? Tensor() : weight_of(samples);
  }
  Terms terms_in(const Dataset&) const override {
    return {counts_alike() ? "samples" : "weighted samples", 1};
  }

  // The loss, the weight, then the sums of add_class_score().
  int64_t sums() const override { return 2 + 2 * C_; }
  void add_score(const Tensor& sums, const Tensor& logits, const Samples& samples) const override {
    const Tensor weight = weight_of(samples), one = Tensor::full({}, 1, DType::f64, sums.device());
    add_weighted(sums.slice(0, 1).view(), loss(logits, samples).view(), weight.view());
    add_weighted(sums.slice(1, 2).view(), one.view(), weight.view());
    add_class_score(sums.slice(2, this->sums()), logits, samples[labels_]);
  }

  Score score(std::span<const double> sums, const Dataset& data) const override {
    double right = 0, all = 0, sum_of_classes = 0, classes = 0;
    std::vector<double> of_class;
    for (size_t c = 0; c < names_.size(); ++c) {
      right += sums[2 + 2 * c];
      all += sums[3 + 2 * c];
      of_class.push_back(ratio(sums[2 + 2 * c], sums[3 + 2 * c]));
      if (std::isnan(of_class.back())) continue;
      sum_of_classes += of_class.back();
      ++classes;
    }
    const double accuracy = ratio(right, all), balanced = ratio(sum_of_classes, classes);
    Score score{.loss = ratio(sums[0], sums[1]), .samples = data.size()};
    score.metrics = {{"correct", right, true},
                     {"accuracy", 100 * accuracy},
                     {"balanced_accuracy", 100 * balanced}};
    for (size_t c = 0; c < names_.size(); ++c)
      score.metrics.push_back({"accuracy." + names_[c], 100 * of_class[c]});
    score.text = fmt::format("accuracy {} ({} of {}), by class {} ({})", percent(accuracy),
                             int64_t(right), int64_t(all), percent(balanced), in_words(of_class));
    return score;
  }

 private:
  bool counts_alike() const {
    return options_.cross_entropy.class_weights.empty() && options_.weights.empty() &&
           !may_be_unjudged_;
  }
  Tensor weights_in(const Samples& samples) const {
    return options_.weights.empty() ? Tensor() : samples[options_.weights];
  }
  Tensor weight_of(const Samples& samples) const {
    return cross_entropy_weight(samples[labels_], C_, options_.cross_entropy, weights_in(samples));
  }
  // "cat 98.00 %, dog 91.50 %", or of many classes the lowest.
  std::string in_words(const std::vector<double>& of_class) const {
    constexpr size_t most = 10;
    std::vector<size_t> order;
    for (size_t c = 0; c < of_class.size(); ++c)
      if (of_class.size() <= most || !std::isnan(of_class[c])) order.push_back(c);
    const bool is_short = of_class.size() <= most;
    if (!is_short) {
      std::ranges::stable_sort(order, {}, [&](size_t c) { return of_class[c]; });
      order.resize(std::min<size_t>(order.size(), 3));
    }
    std::vector<std::string> parts;
    for (const size_t c : order) parts.push_back(names_[c] + " " + percent(of_class[c]));
    return fmt::format("{}{}", is_short ? "" : "lowest ", fmt::join(parts, ", "));
  }

  const int64_t C_;
  const bool may_be_unjudged_;
  const std::string labels_;
  const ClassificationOptions options_;
  std::vector<std::string> names_;
};

const std::string& name_of(NumberLoss loss) {
  return std::ranges::find(detail::number_losses(), loss,
                           [](const auto& each) { return each.second; })
      ->first;
}

class WeightedRegression : public Objective {
 public:
  WeightedRegression(const Field& targets, RegressionOptions options)
      : targets_(targets.name),
        labels_(options.loss == NumberLoss::bce
                    ? targets.values.shape().numel() / targets.values.size(0)
                    : 0),
        names_(targets.class_names),
        options_(std::move(options)) {}

  std::string name() const override {
    std::string text = "regression";
    if (options_.loss != NumberLoss::mse) text += std::string(", ") + name_of(options_.loss);
    if (options_.loss == NumberLoss::smooth_l1) text += fmt::format(" {}", options_.beta);
    if (!options_.positive_weights.empty())
      text += ", positive weights " + listed(options_.positive_weights);
    if (!options_.weights.empty()) text += ", samples by " + options_.weights;
    return text;
  }
  std::string input() const override { return options_.input; }
  std::vector<std::string> targets() const override {
    std::vector<std::string> fields{targets_};
    if (!options_.weights.empty()) fields.push_back(options_.weights);
    return fields;
  }

  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    const Tensor& target = samples[targets_];
    check(answer.shape() == target.shape(),
          "the network answers with {}, but the {} of these samples are {}: expected as many "
          "answers as there are numbers",
          answer.shape(), targets_, target.shape());
    const Tensor s = options_.weights.empty() ? Tensor() : samples[options_.weights];
    switch (options_.loss) {
      case NumberLoss::mse:
        return s.defined() ? mse_loss(answer, target, s) : mse_loss(answer, target);
      case NumberLoss::l1:
        return s.defined() ? l1_loss(answer, target, s) : l1_loss(answer, target);
      case NumberLoss::smooth_l1: return smooth_l1_loss(answer, target, options_.beta, s);
      case NumberLoss::bce: break;
    }
    return bce_with_logits(answer, target, options_.positive_weights, s);
  }
  Tensor weight(const Samples& samples) const override {
    return options_.weights.empty() ? Tensor() : sample_weight_sum(samples[options_.weights]);
  }
  Terms terms_in(const Dataset&) const override {
    return {options_.weights.empty() ? "samples" : "weighted samples", 1};
  }

  // The loss and the weight; with bce then what add_label_score() counts of each label.
  int64_t sums() const override { return 2 + 3 * labels_; }
  void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const override {
    const Tensor mean = loss(answer, samples), one = Tensor::full({}, 1, DType::f64, sums.device());
    const Tensor weight = options_.weights.empty()
                              ? Tensor::full({}, double(samples.size()), DType::f64, sums.device())
                              : this->weight(samples);
    add_weighted(sums.slice(0, 1).view(), mean.view(), weight.view());
    add_weighted(sums.slice(1, 2).view(), one.view(), weight.view());
    if (labels_ == 0) return;
    add_label_score(sums.slice(2, this->sums()), answer, samples[targets_]);
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double loss = ratio(sums[0], sums[1]);
    Score score{.loss = loss, .samples = data.size()};
    if (options_.loss == NumberLoss::mse) score.metrics = {{"rmse", std::sqrt(loss)}};
    if (labels_ == 0) return score;
    double wrong = 0, sum = 0, known = 0;
    std::vector<Score::Metric> of_labels;
    for (int64_t k = 0; k < labels_; ++k) {
      const double* const of_label = &sums[static_cast<size_t>(2 + 3 * k)];
      const double both = of_label[0], found_and_wanted = of_label[1] + of_label[2];
      wrong += found_and_wanted - 2 * both;
      if (k < std::ssize(names_))
        of_labels.push_back(
            {"f1." + names_[static_cast<size_t>(k)], ratio(2 * both, found_and_wanted)});
      if (found_and_wanted == 0) continue;
      sum += 2 * both / found_and_wanted;
      ++known;
    }
    const double accuracy = 1 - wrong / double(data.size() * labels_), f1 = ratio(sum, known);
    score.metrics = {{"accuracy", 100 * accuracy}, {"f1", f1}};
    score.metrics.insert(score.metrics.end(), of_labels.begin(), of_labels.end());
    score.text = fmt::format("{} of the labels right, F1 {}", percent(accuracy),
                             std::isnan(f1) ? "-" : fmt::format("{:.4f}", f1));
    return score;
  }

 private:
  const std::string targets_;
  const int64_t labels_;                  // that a score counts
  const std::vector<std::string> names_;  // of the labels, or none
  const RegressionOptions options_;
};

}  // namespace

ObjectivePtr classification(const Field& labels, ClassificationOptions options) {
  const auto& w = options.cross_entropy.class_weights;
  check(labels.encoding == Encoding::index && labels.classes > 0,
        "the {} are no classes: expected indices of one class or more", labels.name);
  if (labels.values.shape().rank() == 2)
    return detail::classification_of_places(labels, std::move(options));
  check(w.empty() || std::ssize(w) == labels.classes,
        "there are {} class weights for {}: expected one for each", w.size(),
        counted_classes(labels.classes));
  return std::make_shared<WeightedClassification>(labels, std::move(options));
}

std::vector<double> balanced_class_weights(const Field& labels) {
  std::vector<double> counts(static_cast<size_t>(labels.classes)), weights(counts.size(), 1);
  if (is_meta(labels.values.device())) return weights;
  const auto count = [&](int32_t label) {
    if (0 <= label && label < labels.classes) ++counts[static_cast<size_t>(label)];
  };
  if (labels.read) {
    const int64_t N = labels.values.size(0);
    std::vector<int32_t> row(static_cast<size_t>(labels.values.numel() / std::max<int64_t>(N, 1)));
    for (int64_t n = 0; n < N; ++n) {
      labels.read(std::as_writable_bytes(std::span(row)), n);
      std::ranges::for_each(row, count);
    }
  } else {
    const Tensor host = labels.values.to(Device::cpu);
    std::ranges::for_each(host.span<int32_t>(), count);
  }
  double all = 0, classes = 0;
  for (const double n : counts) all += n, classes += n > 0;
  for (size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0) weights[c] = all / (classes * counts[c]);
  return weights;
}

ObjectivePtr regression(const Field& targets, RegressionOptions options) {
  const Shape& shape = targets.values.shape();
  check(options.loss == NumberLoss::bce || options.positive_weights.empty(),
        "there are {} positive weights, which the loss {} does not take: expected bce",
        options.positive_weights.size(), name_of(options.loss));
  check(options.loss == NumberLoss::smooth_l1 || options.beta == 1,
        "beta is {}, which the loss {} does not take: expected smooth-l1", options.beta,
        name_of(options.loss));
  check(options.loss != NumberLoss::bce || shape.rank() == 2,
        "the {} are {}: expected [N, K], K labels of each sample, for the loss bce", targets.name,
        shape);
  check(options.positive_weights.empty() || std::ssize(options.positive_weights) == shape[1],
        "there are {} positive weights for {} labels: expected one for each",
        options.positive_weights.size(), shape[1]);
  return std::make_shared<WeightedRegression>(targets, std::move(options));
}

const std::map<std::string, NumberLoss>& detail::number_losses() {
  static const std::map<std::string, NumberLoss> losses{{"mse", NumberLoss::mse},
                                                        {"l1", NumberLoss::l1},
                                                        {"smooth-l1", NumberLoss::smooth_l1},
                                                        {"bce", NumberLoss::bce}};
  return losses;
}

}  // namespace accrue
