#include "text/language_modeling.h"

#include <cmath>

#include "kernels/judged.h"
#include "kernels/linear_cross_entropy.h"
#include "text/language_model.h"

namespace accrue {
namespace {

class LanguageModeling : public Objective {
 public:
  std::string name() const override { return "language modeling"; }
  std::string input() const override { return "tokens"; }
  std::vector<std::string> targets() const override { return {"positions", "labels"}; }

  // The loss itself, because the logits of all tokens would be many times as much as all else.
  Tensor answer(const Module& model, const Samples& samples, const Pass& pass) const override {
    const auto* network = dynamic_cast<const LanguageModel*>(&model);
    check(network, "language modeling takes a LanguageModel, not {}", model.describe());
    const Tensor x = network->states({samples["tokens"], samples["positions"]}, pass);
    return linear_cross_entropy(x, network->head(), samples["labels"], weight(samples));
  }
  Tensor loss(const Tensor& answer, const Samples&) const override { return answer; }
  Tensor weight(const Samples& samples) const override { return judged_weight(samples["labels"]); }

  // The losses times their weights, and the weights.
  int64_t sums() const override { return 2; }
  void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const override {
    const Tensor counted = weight(samples),
                 one = Tensor::full({1}, 1, answer.dtype(), answer.device());
    add_weighted(sums.slice(0, 1).view(), answer.reshape({1}).view(), counted.view());
    add_weighted(sums.slice(1, 2).view(), one.view(), counted.view());
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
    const auto tokens = std::llround(sums[1] * double(data.field("labels").values.size(1)));
    return {.loss = loss,
            .samples = data.size(),
            .metrics = {{"tokens", double(tokens), true}, {"perplexity", std::exp(loss)}},
            .text = fmt::format("perplexity {:.3f} ({} tokens)", std::exp(loss), tokens)};
  }
};

}  // namespace

ObjectivePtr language_modeling() { return std::make_shared<LanguageModeling>(); }

}  // namespace accrue
