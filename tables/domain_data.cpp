#include "tables/domain_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "data/words.h"
#include "tables/domain_features.h"
#include "tables/domain_targets.h"
#include "tables/standardize.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Tensor weights_of(const RawTable& table, const std::string& name, std::span<const int64_t> rows) {
  const RawColumn& column = table.at(name, "--weight-column: ");
  const Tensor w = Tensor::empty({std::ssize(rows)}, DType::f32, Device::cpu, Category::data);
  const auto to = w.span<float>();
  for (size_t k = 0; k < rows.size(); ++k) {
    const auto n = static_cast<size_t>(rows[k]);
    check(column.numbers[n] >= 0, "{} is {}, expected a weight that is not negative",
          table.place(table.lines[n], name), column.numbers[n]);
    to[k] = static_cast<float>(column.numbers[n]);
    check(std::isfinite(to[k]), "{} is {}, expected a weight that float32 can hold",
          table.place(table.lines[n], name), column.numbers[n]);
  }
  check(std::ranges::any_of(to, [](float weight) { return weight > 0; }),
        "'{}', column '{}': all weights are 0{}: expected some above 0", table.path.string(), name,
        std::ssize(rows) == table.rows()
            ? ""
            : fmt::format(" in the {} of a part", counted(std::ssize(rows), "row")));
  return w;
}

Dataset part_of(const RawTable& table, const Answers& answers, const TableColumns& columns,
                const TableOptions& o, std::span<const int64_t> rows) {
  Dataset data{table.file(), table.path.string()};
  data.fields = {{.name = "features",
                  .values = features_of(table, columns, rows),
                  .encoding = Encoding::number}};
  if (!o.is_asked) data.fields.push_back(targets_of(table, answers, columns, rows));
  if (!o.weights.empty() && !o.is_asked && table.find(o.weights))
    data.fields.push_back({.name = "weights",
                           .values = weights_of(table, o.weights, rows),
                           .encoding = Encoding::weight});
  data.taught = {{table_key, columns.written()}, {"loss", columns.loss}};
  return data;
}

std::string about(const RawTable& table, const TableColumns& columns, const TableOptions& o,
                  int64_t trained_on, int64_t tested) {
  const auto numbers = std::ranges::count_if(
      columns.features, [](const Column& column) { return column.classes.empty(); });
  const int64_t words = std::ssize(columns.features) - numbers;
  std::string text = counted(numbers, "column") + " of numbers";
  if (words > 0) text += fmt::format(" and {} of classes ({} inputs)", words, columns.inputs());
  const Names names = columns.names();
  text += fmt::format(" to {}", some_of(names));
  if (columns.loss == loss_of_classes)
    text += fmt::format(", {}: {}", counted_classes(std::ssize(columns.classes)),
                        some_of(columns.classes, 10));
  text += fmt::format("; loss {}; {} to train, {}", columns.loss, counted(trained_on, "row"),
                      tested > 0 ? fmt::format("{} to test", tested) : "tested with the same");
  Names unused;
  for (const RawColumn& column : table.columns)
    if (column.numbers.empty() && column.codes.empty()) unused.push_back(column.name);
  if (!unused.empty()) text += "; not used: " + some_of(unused);
  if (!o.weights.empty() && !table.find(o.weights))
    text += fmt::format("; there is no column {}, so all rows count alike", o.weights);
  return text;
}

std::vector<int64_t> all_rows(const RawTable& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

bool is_of_amounts(const std::string& loss) {
  return loss != loss_of_classes && loss != loss_of_labels;
}

// Targets that are known may have another loss of the same kind.
TableColumns columns_known(const TableOptions& o) {
  TableColumns columns;
  if (o.known) columns = *o.known;
  if (o.has_new_head || !o.known) {
    columns.targets.clear();
    columns.classes.clear();
    columns.loss = o.loss;
  } else if (!o.loss.empty() && o.loss != columns.loss) {
    check(is_of_amounts(o.loss) && is_of_amounts(columns.loss),
          "--loss {}: the weights have learned by {}: expected {}", o.loss, columns.loss,
          is_of_amounts(columns.loss) ? "mse, l1 or smooth-l1" : "no other --loss");
    columns.loss = o.loss;
  }
  return columns;
}

// The two parts' rows in their order: those with the lowest hashes are for the test.
std::pair<std::vector<int64_t>, std::vector<int64_t>> divided(const RawTable& table, double share) {
  std::vector<int64_t> order = all_rows(table), test;
  const int64_t N = table.rows();
  if (share == 0 || N < 2) return {order, order};
  const auto hash = [](int64_t n) {
    return std::pair(mix_bits(static_cast<uint64_t>(n + 1) * 0x9e3779b97f4a7c15), n);
  };
  std::ranges::sort(order, {}, hash);
  const int64_t held = std::clamp<int64_t>(std::llround(share * double(N)), 1, N - 1);
  test.assign(order.begin(), order.begin() + held);
  order.erase(order.begin(), order.begin() + held);
  std::ranges::sort(order);
  std::ranges::sort(test);
  return {order, test};
}

// Measures the rows that are trained on. The columns that are known stay as they are.
Answers learn(const RawTable& table, const TableOptions& o, TableColumns& columns,
              std::span<const int64_t> trained_on) {
  const bool has_targets = !columns.targets.empty();
  Answers answers = read_answers(table, o, columns);
  if (columns.features.empty()) choose_features(table, o, columns, trained_on);
  if (!has_targets && is_of_amounts(columns.loss))
    for (size_t k = 0; k < columns.targets.size(); ++k)
      measure(columns.targets[k], answers.numbers[k], trained_on);
  return answers;
}

}  // namespace

Datasets detail::read_table(const fs::path& path, const TableOptions& options) {
  const RawTable table = read_raw(path, options);
  const auto [train, test] = divided(table, options.hold_out);
  TableColumns columns = columns_known(options);
  const Answers answers = learn(table, options, columns, train);
  Datasets data{part_of(table, answers, columns, options, train),
                part_of(table, answers, columns, options, test)};
  data.test.is_trained_on = options.hold_out == 0 || table.rows() < 2;
  data.train.about = about(table, columns, options, std::ssize(train),
                           data.test.is_trained_on ? 0 : std::ssize(test));
  return data;
}

Datasets detail::read_tables(const fs::path& train, const fs::path& test,
                             const TableOptions& options) {
  const RawTable table = read_raw(train, options);
  TableColumns columns = columns_known(options);
  const std::vector<int64_t> rows = all_rows(table);
  const Answers answers = learn(table, options, columns, rows);
  TableOptions of_test = options;
  of_test.known = columns;
  of_test.has_new_head = false;
  const RawTable other = read_raw(test, of_test);
  const std::vector<int64_t> tested = all_rows(other);
  const Answers right = read_answers(other, of_test, columns);
  Datasets data{part_of(table, answers, columns, options, rows),
                part_of(other, right, columns, options, tested)};
  data.train.about = about(table, columns, options, std::ssize(rows), std::ssize(tested));
  return data;
}

Dataset detail::read_questions(const fs::path& path, const TableOptions& options) {
  TableOptions asked = options;
  asked.is_asked = true;
  const RawTable table = read_raw(path, asked);
  return part_of(table, {}, asked.known.value(), asked, all_rows(table));
}

}  // namespace accrue
