#include "tables/table_regression.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "core/inside.h"

namespace accrue {
namespace {

class TableRegression : public Objective {
 public:
  TableRegression(const Field& targets, const TableColumns& columns, RegressionOptions options)
      : field_(targets.name),
        columns_(columns.targets),
        base_(regression(targets, std::move(options))) {}

  std::string name() const override { return base_->name(); }
  std::string input() const override { return base_->input(); }
  std::vector<std::string> targets() const override { return base_->targets(); }
  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    return base_->loss(answer, samples);
  }
  Tensor weight(const Samples& samples) const override { return base_->weight(samples); }
  Terms terms_in(const Dataset& data) const override { return base_->terms_in(data); }

  // The sums of the loss, then for each target: of squared errors, and of absolute errors.
  int64_t sums() const override { return base_->sums() + of_target * std::ssize(columns_); }
  void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const override {
    const int64_t before = base_->sums();
    base_->add_score(sums.slice(0, before), answer, samples);
    add_on_host(sums.slice(before, this->sums()),
                [&] { return errors(as_f32(answer), as_f32(samples[field_])); });
  }

  Score score(std::span<const double> sums, const Dataset& data) const override {
    const auto before = static_cast<size_t>(base_->sums());
    Score score = base_->score(sums.first(before), data);
    score.metrics.clear();
    const double N = double(data.size());
    const bool is_one = columns_.size() == 1;
    std::vector<std::string> parts;
    double sum = 0, known = 0;
    const std::vector<double> spreads = spreads_of(as_f32(data.field(field_).values));
    for (size_t k = 0; k < columns_.size(); ++k) {
      const double squares = sums[before + of_target * k],
                   distances = sums[before + of_target * k + 1], spread = spreads[k];
      const double rmse = columns_[k].std * std::sqrt(squares / N),
                   mae = columns_[k].std * distances / N,
                   r2 =
                       spread > 0 ? 1 - squares / spread : std::numeric_limits<double>::quiet_NaN();
      if (spread > 0) sum += r2, ++known;
      const std::string of = is_one ? "" : "." + columns_[k].name;
      score.metrics.push_back({"rmse" + of, rmse});
      score.metrics.push_back({"mae" + of, mae});
      score.metrics.push_back({"r2" + of, r2});
      parts.push_back(
          fmt::format("{} RMSE {:.4g}, MAE {:.4g}, R2 {:.4f}", columns_[k].name, rmse, mae, r2));
    }
    if (!is_one)
      score.metrics.push_back(
          {"r2", known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN()});
    constexpr size_t most = 5;
    if (parts.size() > most)
      parts = {fmt::format("{} columns, R2 {:.4f} on average", columns_.size(), sum / known)};
    score.text = fmt::format("{}", fmt::join(parts, "; "));
    return score;
  }

 private:
  static constexpr int64_t of_target = 2;

  // The sum of (t - mean t)^2 of each target. It is computed of distances to the first row, so that
  // it is 0 for targets that are all alike, and keeps its digits for targets far from 0.
  std::vector<double> spreads_of(const Tensor& targets) const {
    const size_t K = columns_.size();
    const auto t = targets.span<float>();
    std::vector<double> sums(K), squares(K);
    const auto distance = [&](size_t i) { return double(t[i]) - double(t[i % K]); };
    for (size_t i = 0; i < t.size(); ++i) sums[i % K] += distance(i);
    for (size_t i = 0; i < t.size(); ++i) {
      const double x = distance(i) - sums[i % K] / double(t.size() / K);
      squares[i % K] += x * x;
    }
    return squares;
  }

  std::vector<double> errors(const Tensor& answers, const Tensor& targets) const {
    const size_t K = columns_.size();
    const auto a = answers.span<float>(), t = targets.span<float>();
    std::vector<double> sums(of_target * K);
    for (size_t i = 0; i < a.size(); ++i) {
      double* const of = &sums[of_target * (i % K)];
      const double error = double(a[i]) - double(t[i]);
      of[0] += error * error;
      of[1] += std::abs(error);
    }
    return sums;
  }

  const std::string field_;
  const std::vector<Column> columns_;
  const ObjectivePtr base_;
};

}  // namespace

ObjectivePtr detail::table_regression(const Field& targets, const TableColumns& columns,
                                      RegressionOptions options) {
  return std::make_shared<TableRegression>(targets, columns, std::move(options));
}

}  // namespace accrue
