#include "text/text_pairs.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "core/inside.h"
#include "data/samples.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/embedding.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/segment_mean.h"
#include "text/language_model.h"
#include "text/rows.h"

namespace accrue {
namespace {

// The anchors times the scale, and the texts that they are compared with: all positives, then all
// negatives. The positive of anchor i is row labels[i] of the others, which is i or the first text
// that is equal to it.
struct Comparison {
  Tensor anchors, others, labels;
};

// The numbers of texts, [N, P]; 0 for a text that no other is equal to.
using Numbers = std::vector<int32_t>;

// For each text, the first text that is equal to it. The order is all positives, then all
// negatives, without the anchors.
std::vector<int32_t> first_of_equals(const Numbers& numbers, int64_t N, int64_t P) {
  std::vector<int32_t> first(static_cast<size_t>(N * (P - 1)));
  std::unordered_map<int32_t, int32_t> known;
  for (int64_t p = 1; p < P; ++p)
    for (int64_t n = 0; n < N; ++n) {
      const auto here = static_cast<int32_t>((p - 1) * N + n);
      const int32_t number = numbers[size_t(n * P + p)];
      first[size_t(here)] = number == 0 ? here : known.emplace(number, here).first->second;
    }
  return first;
}

class TextPairs : public Objective {
 public:
  explicit TextPairs(const TextPairOptions& options)
      : scale_(options.scale),
        duplicates_(options.duplicates),
        some_are_equal_(options.some_are_equal) {
    check(scale_ > 0, "texts are compared at a scale of {}: expected a number above 0", scale_);
  }
  std::string name() const override { return fmt::format("pairs of texts({})", scale_); }
  std::string input() const override { return "tokens"; }
  std::vector<std::string> targets() const override {
    std::vector<std::string> all{"positions", "lengths"};
    if (some_are_equal_) all.emplace_back("texts");
    return all;
  }
  bool is_of_window() const override { return true; }

  Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const override {
    const auto* network = LanguageModel::in(model);
    check(network, "texts are compared by a LanguageModel, not by {}", model.describe());
    check(pass.piece == 0 || pass.piece >= samples["tokens"].size(1),
          "the texts of a sample are computed as one row of {} tokens, not in pieces of {}: "
          "expected no sequence-piece",
          samples["tokens"].size(1), pass.piece);
    const Tensor means = segment_mean(
        network->states({samples["tokens"], samples["positions"]}, pass), samples["lengths"]);
    return some_are_equal_ ? concat({means, numbers_of(samples, means)}, 1) : means;
  }
  Tensor window_loss(const Tensor& answers) const override {
    const Comparison all = compare(answers, duplicates_);
    return linear_cross_entropy(all.anchors, all.others, all.labels);
  }
  Tensor loss(const Tensor& answer, const Samples&) const override { return window_loss(answer); }

  bool scores_all_at_once() const override { return true; }
  int64_t sums() const override { return counts_recall_apart() ? 6 : 3; }
  void add_score(const Tensor&, const Tensor&, const Samples&) const override {}
  void add_score_of_all(const Tensor& sums, const Tensor& answers) const override {
    const auto add = [&](int64_t begin, Duplicates duplicates) {
      const Comparison all = compare(answers, duplicates);
      add_linear_score(sums.slice(begin, begin + 3), all.anchors, all.others, all.labels);
    };
    add(0, duplicates_);
    // For the recall, a text that is equal to the positive does not count as a nearer one.
    if (counts_recall_apart()) add(3, Duplicates::ignore);
  }
  Score score(std::span<const double> sums, const Dataset&) const override {
    const double right = sums[counts_recall_apart() ? 5 : 2], recall = 100 * right / sums[1];
    return {.loss = sums[0] / sums[1],
            .samples = int64_t(sums[1]),
            .metrics = {{"recall@1", recall}},
            .text = fmt::format("recall@1 {:.2f} % ({} of {})", recall, int64_t(right),
                                int64_t(sums[1]))};
  }

 private:
  bool counts_recall_apart() const {
    return some_are_equal_ && duplicates_ == Duplicates::negatives;
  }

  // A column [rows, 1] with the type and device of another tensor.
  static Tensor column_of(const std::vector<double>& values, const Tensor& other) {
    const Shape shape{std::ssize(values), 1};
    if (other.dtype() == DType::f64) return Tensor::from(values, shape, other.device());
    const std::vector<float> narrow(values.begin(), values.end());
    return Tensor::from(narrow, shape, other.device());
  }

  // The numbers of the texts as a row [N, 1, E] like the rows of the means, with the numbers as its
  // first elements. They thus go wherever the answers go, including other ranks.
  static Tensor numbers_of(const Samples& samples, const Tensor& means) {
    const Tensor& digits = samples["texts"];
    const int64_t N = means.size(0), E = means.size(2), D = digits.size(1);
    check(D <= E, "the numbers of {} texts beside states of {} channels: expected {} or more",
          D / 2, E, D);
    std::vector<double> values(text_digit);
    std::iota(values.begin(), values.end(), 0.0);
    const Tensor row =
        embedding(column_of(values, means), digits.reshape({N * D})).reshape({N, 1, D});
    if (D == E) return row;
    return concat({row, Tensor::full({N, 1, E - D}, 0, means.dtype(), means.device())}, 2);
  }
  // `rows` are all rows of the answers: in each sample P means and the row of numbers.
  static Numbers numbers_in(const Tensor& rows, int64_t N, int64_t P) {
    const NoGrad no_grad;
    Numbers numbers(static_cast<size_t>(N * P));
    std::vector<int32_t> at;
    for (int64_t n = 0; n < N; ++n) at.push_back(static_cast<int32_t>(n * (P + 1) + P));
    const Tensor of_samples = embedding(rows.detach(), Tensor::from(at, {N}, rows.device()));
    if (is_meta(rows.device())) return numbers;
    const Tensor digits = as_f32(of_samples);
    const auto all = digits.span<float>();
    for (int64_t n = 0; n < N; ++n)
      for (int64_t p = 0; p < P; ++p) {
        const float* const of_text = &all[size_t(n * digits.size(1) + 2 * p)];
        numbers[size_t(n * P + p)] =
            text_digit * static_cast<int32_t>(of_text[0]) + static_cast<int32_t>(of_text[1]);
      }
    return numbers;
  }

  Comparison compare(const Tensor& answers, Duplicates duplicates) const {
    const int64_t N = answers.size(0), rows = answers.size(1), E = answers.size(2);
    const int64_t P = some_are_equal_ ? rows - 1 : rows;
    std::vector<int32_t> anchors, others;
    for (int64_t n = 0; n < N; ++n) anchors.push_back(static_cast<int32_t>(n * rows));
    for (int64_t p = 1; p < P; ++p)
      for (int64_t n = 0; n < N; ++n) others.push_back(static_cast<int32_t>(n * rows + p));
    std::vector<int32_t> labels(static_cast<size_t>(N));
    std::iota(labels.begin(), labels.end(), 0);
    const Tensor all = answers.reshape({N * rows, E}), z = unit_rows(all);
    const auto indices = [&](const std::vector<int32_t>& of) {
      return Tensor::from(of, {std::ssize(of)}, answers.device());
    };
    const Tensor a = scale(embedding(z, indices(anchors)), scale_),
                 o = embedding(z, indices(others));
    if (!some_are_equal_ || duplicates == Duplicates::negatives) return {a, o, indices(labels)};

    // An additional channel, which is 1 in the anchors, removes duplicates from the softmax.
    constexpr double left_out = -1e9;
    const std::vector<int32_t> first = first_of_equals(numbers_in(all, N, P), N, P);
    std::vector<double> added(first.size());
    for (size_t i = 0; i < first.size(); ++i)
      added[i] = first[i] == static_cast<int32_t>(i) ? 0 : left_out;
    std::copy_n(first.begin(), N, labels.begin());
    return {concat({a, column_of(std::vector<double>(size_t(N), 1), a)}, 1),
            concat({o, column_of(added, o)}, 1), indices(labels)};
  }

  const double scale_;
  const Duplicates duplicates_;
  const bool some_are_equal_;
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
