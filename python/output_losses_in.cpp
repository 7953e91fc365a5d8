#include "python/output_losses_in.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "images/domain.h"
#include "images/segmentation.h"
#include "python/given.h"
#include "python/named_data.h"
#include "train/output_losses.h"
#include "train/weighted_objectives.h"

namespace accrue::python {
namespace {

using Json = nlohmann::ordered_json;

// The weights of samples of an output's loss; empty if there are none.
std::string weights_in(const Dataset& data, const std::string& output) {
  for (const std::string& name : {weights_for(output), std::string("weights")})
    if (data.has(name)) return name;
  return {};
}

// One output's loss, which takes each of its options once.
class LossOfOutput {
 public:
  LossOfOutput(std::string output, Json options)
      : output_(std::move(output)), options_(std::move(options)) {}

  OutputLoss in(const std::string& input, const std::map<std::string, Shape>& answers,
                const Dataset& data) {
    const auto target = take<std::string>("target", output_);
    check(data.has(target),
          "the loss of '{}' compares it with the array '{}', which the data has not: expected it, "
          "or another target",
          output_, target);
    const Field field = field_compared(data, target, answers, output_);
    const auto factor = take<double>("weight", 1);
    const std::string weights = weights_in(data, output_);
    ObjectivePtr objective = objective_on(field, input, weights);
    for (const auto& [name, value] : options_.items())
      fail("the loss {} of '{}' has no {}", kind_, output_, name);
    return {output_, std::move(objective), factor};
  }

 private:
  template <class T>
  T take(const char* name, T usual) {
    const auto found = options_.find(name);
    if (found == options_.end()) return usual;
    const T value = found->template get<T>();
    options_.erase(found);
    return value;
  }

  ObjectivePtr objective_on(const Field& field, const std::string& input,
                            const std::string& weights) {
    const bool is_mask = field.values.shape().rank() == 4 &&
                         (field.encoding == Encoding::mask || field.encoding == Encoding::index);
    const bool is_label = field.encoding == Encoding::index && !is_mask;
    kind_ = take<std::string>("loss", is_label ? "cross-entropy" : is_mask ? "" : "mse");
    if (is_mask) {
      check(weights.empty(), "sample_weight is for classes or numbers, but '{}' has masks",
            field.name);
      return segmentation(field, {.losses = mask_losses_of(kind_),
                                  .class_weights = take<std::vector<double>>("class_weights", {})});
    }
    if (is_label) {
      check(kind_ == "cross-entropy",
            "the loss of '{}' is {}, but {} has classes (integers): expected cross_entropy, or "
            "float32, numbers",
            output_, kind_, field.name);
      ClassificationOptions options{.weights = weights, .input = input};
      options.cross_entropy.class_weights = take<std::vector<double>>("class_weights", {});
      options.cross_entropy.label_smoothing = take<double>("label_smoothing", 0);
      return classification(field, options);
    }
    const auto found = detail::number_losses().find(kind_);
    check(found != detail::number_losses().end(),
          "the loss of '{}' is {}, but {} has numbers (float32): expected mse, l1, smooth_l1 or "
          "bce, or integers [N], classes",
          output_, kind_, field.name);
    RegressionOptions options{.loss = found->second, .weights = weights, .input = input};
    if (found->second == NumberLoss::smooth_l1) options.beta = take<double>("beta", 1);
    if (found->second == NumberLoss::bce)
      options.positive_weights = take<std::vector<double>>("pos_weight", {});
    return regression(field, options);
  }

  const std::string output_;
  Json options_;
  std::string kind_;
};

// The losses by outputs. Without any, one for each output that has an array.
Json losses_in(const std::string& loss, const std::vector<std::string>& outputs,
               const Dataset& data) {
  if (loss.starts_with('{')) {
    const Json all = Json::parse(loss, nullptr, false);
    check(all.is_object(), "the loss '{}' is no JSON: expected what accrue.loss() makes", loss);
    return all;
  }
  Json all = Json::object();
  for (const std::string& output : outputs)
    if (data.has(output)) all[output] = Json::object();
  check(!all.empty(),
        "the data has no array for an output: expected one or more of {}, or a loss with a target",
        fmt::join(outputs, ", "));
  if (loss.empty()) return all;
  check(all.size() == 1,
        "the loss is {}, but the data has arrays for {} outputs: expected a "
        "dictionary of losses by the names of outputs",
        loss, all.size());
  all.front()["loss"] = loss;
  return all;
}

}  // namespace

Field field_compared(const Dataset& data, const std::string& target,
                     const std::map<std::string, Shape>& answers, const std::string& output) {
  Field field = data.field(target);
  const auto answer = answers.find(output);
  if (field.encoding == Encoding::index && answer != answers.end() && answer->second.rank() > 1)
    field.classes = std::max(field.classes, classes_told_apart(answer->second, field));
  return field;
}

ObjectivePtr objective_of_outputs(const std::string& loss, const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs,
                                  const std::map<std::string, Shape>& answers,
                                  const Dataset& data) {
  std::vector<OutputLoss> losses;
  const Json wanted = losses_in(loss, outputs, data);
  for (const auto& [output, options] : wanted.items()) {
    check(std::ranges::find(outputs, output) != outputs.end(),
          "there is a loss of '{}', which is no output of the network: expected {}", output,
          fmt::join(outputs, ", "));
    check(options.is_object(), "the loss of '{}' is {}: expected its options", output,
          options.dump());
    try {
      losses.push_back(LossOfOutput(output, options).in(inputs.front(), answers, data));
    } catch (const nlohmann::json::exception& error) {
      fail("the loss of '{}' is {}: {}", output, options.dump(), error.what());
    }
  }
  ObjectivePtr objective = losses_of_outputs(inputs, std::move(losses));
  const std::vector<std::string> targets = objective->targets();
  for (const Field& field : data.fields)
    check(std::ranges::find(inputs, field.name) != inputs.end() ||
              std::ranges::find(targets, field.name) != targets.end() ||
              field.encoding == Encoding::weight,
          "the data has '{}', which is no input of the network and no loss compares an output "
          "with: expected {}",
          field.name, fmt::join(outputs, ", "));
  return objective;
}

}  // namespace accrue::python
