#include "text/text_pairs.h"

#include <numeric>
#include <vector>

#include "data/samples.h"
#include "kernels/arithmetic.h"
#include "kernels/embedding.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/segment_mean.h"
#include "text/language_model.h"

namespace accrue {
namespace {

// Anchors, times the scale, and what they are compared with, first all positives: that of anchor i
// is row labels[i] = i.
struct Comparison {
  Tensor anchors, others, labels;
};

class TextPairs : public Objective {
 public:
  explicit TextPairs(const TextPairOptions& options) : scale_(options.scale) {
    check(scale_ > 0, "texts are compared at a scale of {}: expected a number above 0", scale_);
  }
  std::string name() const override { return fmt::format("pairs of texts({})", scale_); }
  std::string input() const override { return "tokens"; }
  std::vector<std::string> targets() const override { return {"positions", "lengths"}; }
  bool is_of_window() const override { return true; }

  Tensor answer(const Module& model, const Samples& samples, const Pass& pass) const override {
    const auto* network = dynamic_cast<const LanguageModel*>(&model);
    check(network, "texts are compared by a LanguageModel, not by {}", model.describe());
    check(pass.piece == 0 || pass.piece >= samples["tokens"].size(1),
          "the texts of a sample are computed as one row of {} tokens, not in pieces of {}: "
          "expected no sequence-piece",
          samples["tokens"].size(1), pass.piece);
    return segment_mean(network->states({samples["tokens"], samples["positions"]}, pass),
                        samples["lengths"]);
  }
  Tensor window_loss(const Tensor& answers) const override {
    const Comparison all = compare(answers);
    return linear_cross_entropy(all.anchors, all.others, all.labels);
  }
  Tensor loss(const Tensor& answer, const Samples&) const override { return window_loss(answer); }

  bool scores_all_at_once() const override { return true; }
  int64_t sums() const override { return 3; }
  void add_score(const Tensor&, const Tensor&, const Samples&) const override {}
  void add_score_of_all(const Tensor& sums, const Tensor& answers) const override {
    const Comparison all = compare(answers);
    add_linear_score(sums, all.anchors, all.others, all.labels);
  }
  Score score(std::span<const double> sums, const Dataset&) const override {
    const double recall = 100 * sums[2] / sums[1];
    return {.loss = sums[0] / sums[1],
            .samples = int64_t(sums[1]),
            .metrics = {{"recall@1", recall}},
            .text = fmt::format("recall@1 {:.2f} % ({} of {})", recall, int64_t(sums[2]),
                                int64_t(sums[1]))};
  }

 private:
  Comparison compare(const Tensor& answers) const {
    const int64_t N = answers.size(0), P = answers.size(1);
    std::vector<int32_t> anchors, others;
    for (int64_t n = 0; n < N; ++n) anchors.push_back(static_cast<int32_t>(n * P));
    for (int64_t p = 1; p < P; ++p)
      for (int64_t n = 0; n < N; ++n) others.push_back(static_cast<int32_t>(n * P + p));
    std::vector<int32_t> labels(static_cast<size_t>(N));
    std::iota(labels.begin(), labels.end(), 0);
    const Tensor z = unit_rows(answers.reshape({N * P, answers.size(2)}));
    const auto indices = [&](const std::vector<int32_t>& rows) {
      return Tensor::from(rows, {std::ssize(rows)}, answers.device());
    };
    return {scale(embedding(z, indices(anchors)), scale_), embedding(z, indices(others)),
            indices(labels)};
  }

  const double scale_;
};

}  // namespace

ObjectivePtr text_pairs(const TextPairOptions& options) {
  return std::make_shared<TextPairs>(options);
}

Tensor embed(const LanguageModel& model, const TokenRows& rows, const Tensor& lengths,
             const Pass& pass) {
  const int64_t N = rows.tokens.size(0);
  const Tensor means = segment_mean(model.states(rows, pass), lengths.reshape({N, 1}));
  return unit_rows(means.reshape({N, means.size(2)}));
}

}  // namespace accrue
