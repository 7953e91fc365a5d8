#include "text/language_modeling.h"

#include <cmath>

#include "kernels/arithmetic.h"
#include "kernels/judged.h"
#include "kernels/linear_cross_entropy.h"
#include "text/language_model.h"

namespace accrue {
namespace {

// The loss of these rows' states. In training it is computed with its gradients, unless somebody
// reads it before.
Tensor loss_of_states(const LanguageModel& network, const Tensor& states, const Tensor& labels,
                      const Tensor& judged, const Pass& pass, int64_t row_labels = 0) {
  return pass.training()
             ? linear_cross_entropy_in_backward(states, network.head(), labels, judged, 0,
                                                row_labels)
             : linear_cross_entropy(states, network.head(), labels, judged, 0, row_labels);
}

// Columns [begin, end) of row n of x, i32 [N, T], as [1, end - begin].
Tensor part_of_row(const Tensor& x, int64_t n, int64_t begin, int64_t end) {
  const int64_t row = n * x.size(1);
  return x.reshape({x.numel()}).slice(row + begin, row + end).reshape({1, end - begin});
}

// The same loss, computed piece by piece in each row. Forward keeps the keys and values of a row,
// and other activations only of the last piece. Backward runs from the newest op to the oldest: it
// computes each piece again and adds to the gradients of the keys and values before it
// (kernels/causal_attention.h). Only one piece's activations exist at a time.
Tensor loss_in_pieces(const LanguageModel& network, const TokenRows& rows, const Tensor& labels,
                      const Tensor& judged, const Pass& pass) {
  const int64_t N = rows.tokens.size(0), T = rows.tokens.size(1);
  Tensor loss;
  for (int64_t n = 0; n < N; ++n) {
    const auto cache = std::make_shared<KeyValueCache>(T);
    Pass own = pass;
    if (pass.samples.defined()) own.samples = pass.samples.slice(n, n + 1);
    for (own.begin = 0; own.begin < T; own.begin += pass.piece) {
      const int64_t end = std::min(own.begin + pass.piece, T);
      const auto part = [&](const Tensor& of) { return part_of_row(of, n, own.begin, end); };
      const Segment loss_of_piece = [&network,
                                     piece = TokenRows{part(rows.tokens), part(rows.positions)},
                                     answers = part(labels), judged, own, cache,
                                     T](const std::vector<Tensor>&) {
        return loss_of_states(network, network.states(piece, own, cache), answers, judged, own, T);
      };
      const Tensor more = end < T ? recompute(loss_of_piece, {}) : loss_of_piece({});
      loss = loss.defined() ? add(std::move(loss), more) : more;
    }
  }
  return loss;
}

class LanguageModeling : public Objective {
 public:
  std::string name() const override { return "language modeling"; }
  std::string input() const override { return "tokens"; }
  std::vector<std::string> targets() const override { return {"positions", "labels"}; }

  // Returns the loss itself, because the logits of all tokens would take many times the memory of
  // everything else.
  Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const override {
    const auto* network = LanguageModel::in(model);
    check(network, "language modeling takes a LanguageModel, not {}", model.describe());
    return loss_of_tokens(*network, {samples["tokens"], samples["positions"]}, samples["labels"],
                          weight(samples), pass);
  }
  int64_t divisible_length(const Dataset& data) const override {
    return data.field("tokens").values.size(1);
  }
  Tensor loss(const Tensor& answer, const Samples&) const override { return answer; }
  Tensor weight(const Samples& samples) const override { return judged_weight(samples["labels"]); }
  Terms terms_in(const Dataset& data) const override {
    return {"tokens", double(data.field("labels").shape_of(1).numel())};
  }

  // The sum of the losses times their weights, and the sum of the weights.
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

Tensor detail::loss_of_tokens(const LanguageModel& network, const TokenRows& rows,
                              const Tensor& labels, const Tensor& judged, const Pass& pass) {
  if (pass.piece > 0 && pass.piece < rows.tokens.size(1))
    return loss_in_pieces(network, rows, labels, judged, pass);
  return loss_of_states(network, network.states(rows, pass), labels, judged, pass);
}

ObjectivePtr language_modeling() { return std::make_shared<LanguageModeling>(); }

}  // namespace accrue
