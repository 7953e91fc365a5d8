#include "train/output_losses.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "accumulate/decision.h"
#include "core/inside.h"
#include "kernels/arithmetic.h"
#include "layers/named_network.h"

namespace accrue {

std::vector<Tensor> detail::answers_by_name(const Layer& model,
                                            const std::vector<std::string>& inputs,
                                            const std::vector<std::string>& wanted,
                                            const Samples& samples, const Pass& pass) {
  const auto* const network = dynamic_cast<const NamedNetwork*>(&model);
  if (!network) {
    check(inputs.size() == 1 && wanted.size() == 1,
          "a layer of one input and one output has {} and {}: expected a network with names, such "
          "as a Graph",
          counted(std::ssize(inputs), "input"), counted(std::ssize(wanted), "output"));
    return {model(samples[inputs.front()], pass)};
  }
  const std::vector<std::string> names = network->input_names();
  for (const std::string& input : inputs)
    check(std::ranges::find(names, input) != names.end(),
          "the network has no input '{}': it has {}", input, fmt::join(names, ", "));
  std::vector<Tensor> seen;
  for (const std::string& name : names) seen.push_back(samples[name]);
  return network->outputs_of(std::move(seen), wanted, pass);
}

std::vector<std::string> detail::output_names(const Layer& model) {
  const auto* const network = dynamic_cast<const NamedNetwork*>(&model);
  return network ? network->output_names() : std::vector<std::string>{"y"};
}

namespace {

class LossesOfOutputs : public Objective {
 public:
  LossesOfOutputs(std::vector<std::string> inputs, std::vector<OutputLoss> losses)
      : inputs_(std::move(inputs)), losses_(std::move(losses)) {
    for (const OutputLoss& loss : losses_) outputs_.push_back(loss.output);
  }

  std::string name() const override {
    std::vector<std::string> parts;
    for (const auto& [output, objective, factor] : losses_)
      parts.push_back(fmt::format("{} of {}{}", objective->name(), output,
                                  factor == 1 ? "" : fmt::format(" times {}", factor)));
    return fmt::format("{}", fmt::join(parts, "; "));
  }
  std::string input() const override { return inputs_.front(); }
  std::vector<std::string> inputs() const override { return inputs_; }
  std::vector<std::string> targets() const override {
    std::vector<std::string> all;
    for (const OutputLoss& each : losses_)
      for (std::string& field : each.objective->targets())
        if (std::ranges::find(all, field) == all.end()) all.push_back(std::move(field));
    return all;
  }

  Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const override {
    check(losses_.size() == 1, "a network with losses of {} has several answers: expected one",
          fmt::join(outputs_, ", "));
    return answers(model, samples, pass).front();
  }
  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    check(losses_.size() == 1, "an answer has losses of {}: expected one of each",
          fmt::join(outputs_, ", "));
    return losses_.front().objective->loss(answer, samples);
  }

  Loss cost(const Layer& model, const Samples& samples, const Pass& pass) const override {
    const std::vector<NamedLoss> all = losses(model, samples, pass);
    Loss sum = sum_of_losses(all).loss;
    if (terms().empty()) sum.terms.clear();
    return sum;
  }
  std::vector<std::string> terms() const override {
    const bool has_terms = losses_.size() > 1 && losses_.size() <= max_loss_terms;
    return has_terms ? outputs_ : std::vector<std::string>{};
  }
  Tensor weight(const Samples& samples) const override {
    return losses_.size() == 1 ? losses_.front().objective->weight(samples) : Tensor();
  }
  // Tried on samples without elements.
  bool counts_apart(const Dataset& data) const override {
    if (losses_.size() == 1) return false;
    const Samples one = empty_samples(data, 1, DType::f32, Device::meta);
    return std::ranges::any_of(
        losses_, [&](const OutputLoss& each) { return each.objective->weight(one).defined(); });
  }
  std::vector<NamedLoss> losses(const Layer& model, const Samples& samples,
                                const Pass& pass) const override {
    std::vector<Tensor> found = answers(model, samples, pass);
    std::vector<NamedLoss> all;
    for (size_t k = 0; k < losses_.size(); ++k) {
      const auto& [output, objective, factor] = losses_[k];
      const Tensor y = std::move(found[k]);
      all.push_back({output, of_output(output, [&] { return objective->loss(y, samples); }),
                     Weight(samples.size()), factor});
    }
    return all;
  }
  std::vector<Tensor> weights(const Samples& samples) const override {
    std::vector<Tensor> all;
    for (const OutputLoss& each : losses_) all.push_back(each.objective->weight(samples));
    return all;
  }
  Terms terms_in(const Dataset& data) const override {
    return losses_.size() == 1 ? losses_.front().objective->terms_in(data) : Terms();
  }

  int64_t sums() const override {
    int64_t all = 0;
    for (const OutputLoss& each : losses_) all += each.objective->sums();
    return all;
  }
  void add_score_of(const Tensor& sums, const Layer& model, const Samples& samples,
                    const Pass& pass) const override {
    const std::vector<Tensor> found = answers(model, samples, pass);
    int64_t begin = 0;
    for (size_t k = 0; k < losses_.size(); ++k) {
      const auto& [output, objective, factor] = losses_[k];
      const int64_t end = begin + objective->sums();
      of_output(output, [&] { objective->add_score(sums.slice(begin, end), found[k], samples); });
      begin = end;
    }
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    Score all{.samples = data.size()};
    std::vector<std::string> texts;
    for (const auto& [output, objective, factor] : losses_) {
      const auto own = static_cast<size_t>(objective->sums());
      const Score part = objective->score(sums.first(own), data);
      sums = sums.subspan(own);
      all.loss += factor * part.loss;
      all.metrics.push_back({output + ".loss", part.loss});
      for (const Score::Metric& metric : part.metrics)
        all.metrics.push_back({output + "." + metric.name, metric.value, metric.is_count});
      texts.push_back(output + ": " + part.describe());
    }
    all.text = fmt::format("{}", fmt::join(texts, "; "));
    return all;
  }

 private:
  std::vector<Tensor> answers(const Layer& model, const Samples& samples, const Pass& pass) const {
    return answers_by_name(model, inputs_, outputs_, samples, pass);
  }
  // Errors of work() begin with the output's name.
  template <class Work>
  static std::invoke_result_t<const Work&> of_output(const std::string& output, const Work& work) {
    try {
      return work();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      fail("output '{}': {}", output, error.what());
    }
  }

  const std::vector<std::string> inputs_;
  const std::vector<OutputLoss> losses_;
  std::vector<std::string> outputs_;
};

}  // namespace

ObjectivePtr losses_of_outputs(std::vector<std::string> inputs, std::vector<OutputLoss> losses) {
  check(!inputs.empty() && !losses.empty(),
        "a network learns from {} and {}: expected at least one of each",
        counted(std::ssize(inputs), "input"),
        losses.size() == 1 ? "1 loss" : fmt::format("{} losses", losses.size()));
  std::set<std::string> outputs;
  for (const auto& [output, objective, factor] : losses) {
    check(outputs.insert(output).second,
          "the output '{}' has two losses: expected one for each output", output);
    check(objective != nullptr, "the output '{}' has no objective", output);
    check(std::isfinite(factor), "the loss of '{}' has the factor {}: expected a finite number",
          output, factor);
    check(!objective->is_of_window() && !objective->scores_all_at_once() &&
              objective->forwards() == 1,
          "the output '{}' has the objective {}, which needs more than one answer to a sample: "
          "expected one of single answers, such as a classification or a regression",
          output, objective->name());
  }
  return std::make_shared<LossesOfOutputs>(std::move(inputs), std::move(losses));
}

}  // namespace accrue
