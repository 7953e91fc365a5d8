#include "tables/domain_features.h"

#include <algorithm>

#include "tables/standardize.h"

namespace accrue {

void detail::choose_features(const RawTable& table, const TableOptions& o, TableColumns& columns,
                             std::span<const int64_t> trained_on) {
  constexpr size_t most_classes = 1000;
  for (const RawColumn& raw : table.columns) {
    if (raw.numbers.empty() && raw.codes.empty()) continue;  // left out
    if (has(o.targets, raw.name) || raw.name == o.weights) continue;
    Column column{.name = raw.name};
    if (raw.has_words) {
      check(raw.words.size() <= most_classes &&
                (std::ssize(raw.words) < table.rows() || table.rows() < 3),
            "column '{}' of {} has {} different texts in {} rows, such as '{:.40}': expected "
            "numbers or classes, or --leave-out {}",
            raw.name, table.file(), raw.words.size(), table.rows(), raw.words.front(), raw.name);
      if (!has(o.categories, raw.name))
        check_texts(table, raw, "--categories names columns of classes, and --leave-out others");
      column.classes = raw.words;
      std::ranges::sort(column.classes, natural_less);
    } else {
      measure(column, raw.numbers, trained_on);
    }
    columns.features.push_back(std::move(column));
  }
  check(!columns.features.empty(),
        "'{}' has no columns but --target's, the weights' and those left out: expected some to "
        "learn from",
        table.path.string());
}

Tensor detail::features_of(const RawTable& table, const TableColumns& columns,
                           std::span<const int64_t> rows) {
  const int64_t N = std::ssize(rows), F = columns.inputs();
  const Tensor x = Tensor::full({N, F}, 0, DType::f32, Device::cpu, Category::data);
  const auto to = x.span<float>();
  int64_t at = 0;
  for (const Column& column : columns.features) {
    const RawColumn& raw = table.at(column.name, "");
    std::vector<int64_t> place;
    for (size_t k = 0; k < raw.words.size(); ++k) {
      const auto found = std::ranges::find(column.classes, raw.words[k]);
      check(found != column.classes.end(), "{} is '{:.40}', but the network has learned {}",
            table.place(raw.first_lines[k], raw.name), raw.words[k], some_of(column.classes, 20));
      place.push_back(found - column.classes.begin());
    }
    for (int64_t k = 0; k < N; ++k) {
      const auto n = static_cast<size_t>(rows[static_cast<size_t>(k)]);
      float* const row = &to[static_cast<size_t>(k * F + at)];
      if (!column.classes.empty()) row[place[static_cast<size_t>(raw.codes[n])]] = 1;
      else *row = standardized(raw.numbers[n], column, table, n);
    }
    at += column.width();
  }
  return x;
}

}  // namespace accrue
