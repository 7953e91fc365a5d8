#include "train/place_classification.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "accumulate/accumulate.h"
#include "core/inside.h"
#include "kernels/arithmetic.h"
#include "kernels/judged.h"
#include "kernels/reduce.h"

namespace accrue {
namespace {

class PlaceClassification : public Objective {
 public:
  PlaceClassification(const Field& labels, ClassificationOptions options)
      : C_(labels.classes),
        T_(labels.values.size(1)),
        may_be_unjudged_(labels.unjudged_value || labels.has_not_judged),
        labels_(labels.name),
        options_(std::move(options)) {
    const size_t weights = options_.cross_entropy.class_weights.size();
    if (weights > 0) C_ = static_cast<int64_t>(weights);
  }

  std::string name() const override {
    const auto& [class_weights, smoothing] = options_.cross_entropy;
    std::string text = "classification of places";
    if (!class_weights.empty()) text += fmt::format(", weights {}", fmt::join(class_weights, " "));
    if (smoothing > 0) text += fmt::format(", smoothing {}", smoothing);
    return text;
  }
  std::string input() const override { return options_.input; }
  std::vector<std::string> targets() const override { return {labels_}; }

  Tensor loss(const Tensor& logits, const Samples& samples) const override {
    const auto [rows, labels] = rows_of(logits, samples);
    return cross_entropy(rows, labels, options_.cross_entropy);
  }
  // A sample with all of its labels counts 1, if they count alike.
  Tensor weight(const Samples& samples) const override {
    if (counts_alike()) return {};
    return scale(weight_of(samples), 1 / double(T_));
  }
  Terms terms_in(const Dataset&) const override {
    const bool is_weighted = !options_.cross_entropy.class_weights.empty();
    if (counts_alike()) return {};
    return {is_weighted ? "weighted labels" : "judged labels", double(T_)};
  }

  // The loss and the weight, then the labels that are told rightly, and all that are judged.
  int64_t sums() const override { return 4; }
  void add_score(const Tensor& sums, const Tensor& logits, const Samples& samples) const override {
    const Tensor weight = weight_of(samples), one = Tensor::full({}, 1, DType::f64, sums.device());
    add_weighted(sums.slice(0, 1).view(), loss(logits, samples).view(), weight.view());
    add_weighted(sums.slice(1, 2).view(), one.view(), weight.view());
    const auto [rows, labels] = rows_of(logits, samples);
    const int64_t C = rows.size(1);
    const Tensor of_classes = Tensor::full({2 * C}, 0, DType::f64, sums.device());
    detail::add_class_score(of_classes, rows, labels);
    accumulate(sums.slice(2, 4).view(), sum(of_classes.reshape({C, 2}), {0}).view(), 1);
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double loss = sums[1] == 0 ? std::nan("") : sums[0] / sums[1],
                 accuracy = sums[3] == 0 ? std::nan("") : 100 * sums[2] / sums[3];
    Score score{.loss = loss, .samples = data.size()};
    score.metrics = {{"correct", sums[2], true}, {"accuracy", accuracy}};
    score.text = sums[3] == 0 ? std::string("no label is judged")
                              : fmt::format("accuracy {:.2f} % ({} of {})", accuracy,
                                            int64_t(sums[2]), int64_t(sums[3]));
    const auto& [class_weights, smoothing] = options_.cross_entropy;
    if (!class_weights.empty() || smoothing > 0) return score;
    score.metrics.push_back({"perplexity", std::exp(loss)});
    return score;
  }

 private:
  struct Rows {
    Tensor logits, labels;  // [N T, C] and [N T]
  };
  Rows rows_of(const Tensor& logits, const Samples& samples) const {
    const Tensor& labels = samples[labels_];
    const Shape &x = logits.shape(), &y = labels.shape();
    const bool agree = x.rank() == 3 && x[0] == y[0] && x[1] == y[1];
    const bool is_second = x.rank() == 3 && x[0] == y[0] && x[2] == y[1];
    check(agree,
          "the network answers with {}, but the {} of these samples are {}, a class for each "
          "place: expected the answers [{}, {}, C]{}",
          x, labels_, y, y[0], y[1],
          is_second       ? ", which transpose(1, 2) makes of them"
          : x.rank() == 2 ? fmt::format("; {}.argmax(axis=1) is one class for each sample", labels_)
                          : "");
    return {logits.reshape({x[0] * x[1], x[2]}), labels.reshape({y[0] * y[1]})};
  }
  bool counts_alike() const {
    return options_.cross_entropy.class_weights.empty() && !may_be_unjudged_;
  }
  Tensor weight_of(const Samples& samples) const {
    const Tensor& labels = samples[labels_];
    return cross_entropy_weight(labels.reshape({labels.numel()}), C_, options_.cross_entropy);
  }

  int64_t C_;  // of the labels, or as many as there are class weights
  const int64_t T_;
  const bool may_be_unjudged_;
  const std::string labels_;
  const ClassificationOptions options_;
};

}  // namespace

ObjectivePtr detail::classification_of_places(const Field& labels, ClassificationOptions options) {
  check(options.weights.empty(),
        "sample_weight is for one class of a sample, but the {} are {}: expected none; a label "
        "that counts nowhere is -100",
        labels.name, labels.values.shape());
  return std::make_shared<PlaceClassification>(labels, std::move(options));
}

}  // namespace accrue
