#include "train/label_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"

namespace accrue {

bool LabelOptions::are_balanced() const {
  const bool is_balanced = std::ranges::count(class_weights, balanced) > 0;
  check(!is_balanced || class_weights.size() == 1,
        "class weights that are balanced and given: expected one of both");
  return is_balanced;
}

std::vector<double> LabelOptions::weights_of(const Field& field) const {
  if (are_balanced()) return balanced_class_weights(field);
  std::vector<double> weights = class_weights;
  const auto place = std::ranges::find(weights, rest);
  if (place == weights.end()) return weights;
  check(std::next(place) == weights.end(),
        "class weights after the word rest, which stands for all further classes: expected it "
        "last");
  weights.pop_back();
  weights.resize(std::max(weights.size(), static_cast<size_t>(field.classes)), 1);
  return weights;
}

CrossEntropyOptions LabelOptions::on(const Field& labels) const {
  return {weights_of(labels), label_smoothing};
}

void LabelOptions::check_data(const Dataset& data, DataUse use) const {
  if (!are_balanced()) return;
  check(data.has(field),
        "balanced class weights are made of labels, but {} has none: expected a weight for each "
        "class",
        data.name);
  check(use == DataUse::training,
        "balanced class weights are made of the labels that are trained on: expected a weight for "
        "each class, or none for those that the weights' file says");
}

ObjectivePtr LabelOptions::objective(const Dataset& data) const {
  if (class_weights.empty() && label_smoothing == 0 && !by_class) return objective_of(data);
  const Field& labels = data.field(field);
  return classification(
      labels, {.cross_entropy = on(labels), .weights = data.has("weights") ? "weights" : ""});
}

Metadata LabelOptions::taught_by(const Dataset& data) const {
  Metadata taught;
  if (label_smoothing == 0) taught["label-smoothing"] = "";
  if (are_balanced() && data.has(field))
    taught["class-weights"] =
        fmt::format("{}", fmt::join(balanced_class_weights(data.field(field)), ","));
  return taught;
}

std::string LabelOptions::describe(const Dataset& data) const {
  constexpr size_t most = 10;
  if (!are_balanced() || !data.has(field)) return {};
  const Field& labels = data.field(field);
  const std::vector<double> weights = balanced_class_weights(labels);
  std::vector<std::string> parts;
  for (size_t c = 0; c < std::min(most, weights.size()); ++c)
    parts.push_back(
        fmt::format("{} {:.4g}", labels.class_name(static_cast<int64_t>(c)), weights[c]));
  if (weights.size() > most) parts.push_back(fmt::format("{} more", weights.size() - most));
  return fmt::format("class weights {}, balanced by {} labels", fmt::join(parts, ", "),
                     data.size());
}

void detail::add_settings(Settings& settings, LabelOptions& options, const ActsWith& of_both,
                          const ActsWith& of_labels) {
  settings
      .add(options.class_weights,
           {.name = "class-weights",
            .decides = Decides::result,
            .help = "How much each class counts in the loss, by the classes' order; of labels the "
                    "loss is a mean over these weights, and the score has the accuracy of each "
                    "class. balanced: labels count against how often the training data have them, "
                    "1 on average. W,rest: all further classes count 1",
            .takes = "balanced|W,W,...",
            .range = {0, 1e6},
            .words = {{"balanced", LabelOptions::balanced}, {"rest", LabelOptions::rest}},
            .acts_with = of_both,
            .saved = Saved::with_scores,
            .acts_in = ActsIn::scores})
      .add(options.label_smoothing,
           {.name = "label-smoothing",
            .decides = Decides::result,
            .help = "The part of each label that all classes share alike, as PyTorch's "
                    "label_smoothing, also in the score's loss",
            .range = {0, 1},
            .acts_with = of_labels,
            .saved = Saved::with_scores,
            .acts_in = ActsIn::scores})
      .add_flag(options.by_class, true,
                {.name = "by-class",
                 .decides = Decides::no_result,
                 .help = "Score the accuracy of each class, too, and their mean, as with "
                         "class weights",
                 .acts_with = of_labels,
                 .acts_in = ActsIn::scores});
}

}  // namespace accrue
