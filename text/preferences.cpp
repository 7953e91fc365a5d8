#include "text/preferences.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/judged.h"
#include "kernels/losses.h"
#include "text/language_model.h"
#include "text/language_modeling.h"

namespace accrue {
namespace {

constexpr int64_t texts = 2, chosen = 0, rejected = 1;  // in a row

class Preferences : public Objective {
 public:
  explicit Preferences(const PreferenceOptions& options) : options_(options) {
    check(options.beta > 0, "preferences with a beta of {}: expected a number above 0",
          options.beta);
  }
  std::string name() const override {
    return fmt::format("preferences({}{})", options_.beta, options_.normalized ? " a token" : "");
  }
  std::string input() const override { return "tokens"; }
  std::vector<std::string> targets() const override { return {"positions", "answers"}; }
  int64_t divisible_length(const Dataset& data) const override {
    return data.field("tokens").values.size(1) / texts;
  }

  // By how much the rewards of the chosen answers exceed those for the rejected ones, [N].
  Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const override {
    const auto* network = LanguageModel::in(model);
    check(network, "preferences are learned by a LanguageModel, not by {}", model.describe());
    check(!Edge(network->head()).wants_grad(),
          "preferences compare a model with itself before the training: expected adapters "
          "(LoRA) beside fixed weights");
    const int64_t N = samples["tokens"].size(0);
    std::vector<Tensor> reference, margins;
    {
      const NoGrad no_grad;
      Pass without = pass;
      without.mode = Pass::Mode::eval;
      without.adapters = Adapters::left_out;
      for (int64_t text = 0; text < texts * N; ++text)
        reference.push_back(scale(log_probability(*network, samples, text, without), -1));
    }
    for (int64_t n = 0; n < N; ++n) {
      const auto log_ratio = [&](int64_t which) {
        const int64_t text = texts * n + which;
        return add(log_probability(*network, samples, text, pass), reference[size_t(text)]);
      };
      const Tensor margin = add(log_ratio(chosen), scale(log_ratio(rejected), -1));
      margins.push_back(scale(margin, options_.beta).reshape({1}));
    }
    return concat(margins, 0);
  }
  Tensor loss(const Tensor& margins, const Samples&) const override {
    return bce_with_logits(margins, 1);
  }

  int64_t sums() const override { return 3; }
  void add_score(const Tensor& sums, const Tensor& margins, const Samples&) const override {
    add_on_host(sums, [&]() -> std::vector<double> {
      const Tensor host = margins.to(Device::cpu);
      double loss = 0, right = 0, all = 0;
      for (size_t n = 0; n < size_t(host.numel()); ++n) {
        const double margin =
            host.dtype() == DType::f64 ? host.span<double>()[n] : double(host.span<float>()[n]);
        loss += std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
        right += margin > 0;
        all += margin;
      }
      return {loss, right, all};
    });
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double N = double(data.size()), accuracy = 100 * sums[1] / N, margin = sums[2] / N;
    return {.loss = sums[0] / N,
            .samples = data.size(),
            .metrics = {{"reward_accuracy", accuracy}, {"reward_margin", margin}},
            .text = fmt::format("reward accuracy {:.2f} % ({} of {}), margin {:.4f}", accuracy,
                                int64_t(sums[1]), data.size(), margin)};
  }

 private:
  // The log-probability of a text's answer, a scalar. Texts are numbered across all samples.
  Tensor log_probability(const LanguageModel& network, const Samples& samples, int64_t text,
                         const Pass& pass) const {
    const Shape& shape = samples["tokens"].shape();
    check(shape[1] % texts == 0,
          "rows of {} tokens for a chosen and a rejected text: expected an even number", shape[1]);
    const int64_t T = shape[1] / texts;
    const auto part = [&](const char* field) {
      return samples[field].reshape({shape[0] * texts, T}).slice(text, text + 1);
    };
    Pass own = pass;
    if (pass.samples.defined()) own.samples = pass.samples.slice(text / texts, text / texts + 1);
    const Tensor labels = part("answers");
    const Tensor counted = options_.normalized ? judged_weight(labels)
                                               : Tensor::full({}, 1, DType::f64, labels.device());
    return scale(loss_of_tokens(network, {part("tokens"), part("positions")}, labels, counted, own),
                 options_.normalized ? -1 : -double(T));
  }

  const PreferenceOptions options_;
};

}  // namespace

ObjectivePtr detail::preferences(const PreferenceOptions& options) {
  return std::make_shared<Preferences>(options);
}

}  // namespace accrue
