#include "tables/domain_targets.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tables/standardize.h"

namespace accrue {
namespace {

using Names = std::vector<std::string>;

bool are_zeros_and_ones(const RawColumn& column) {
  const auto numbers = numbers_of(column);
  return numbers && std::ranges::all_of(*numbers, [](double x) { return x == 0 || x == 1; });
}

// The loss for these targets where the user names none.
std::string usual_loss(const RawTable& table, const std::vector<const RawColumn*>& targets) {
  const auto named = [](const RawColumn* column) { return "'" + column->name + "'"; };
  if (targets.size() > 1) {
    if (std::ranges::all_of(targets, [](auto* c) { return are_zeros_and_ones(*c); }))
      return loss_of_labels;
    for (const RawColumn* column : targets)
      check_numbers(table, *column, ", because --target has several columns");
    return "mse";
  }
  const RawColumn& column = *targets.front();
  const char* const wish = "--loss cross-entropy takes all values for classes";
  if (!number_in(column.words.front())) {
    check_texts(table, column, wish);
    return loss_of_classes;
  }
  check_numbers(table, column, fmt::format(", as above; {}", wish));
  const std::vector<double> numbers = numbers_of(column).value();
  constexpr size_t few = 20;
  const bool may_be_classes = numbers.size() <= few && std::ranges::all_of(numbers, [](double x) {
                                return x == std::floor(x);
                              });
  check(!may_be_classes,
        "column {} of {} has {} whole numbers, such as {}: expected --loss cross-entropy if they "
        "are classes, or --loss mse if they are amounts",
        named(&column), table.file(), numbers.size(), numbers.front());
  return "mse";
}

// Words that are numbers, written alike: "1.0" becomes "1". Numbers of more digits than a double
// has stay as they are.
std::string alike(const std::string& word) {
  constexpr double most = 9007199254740992;  // 2^53
  const std::optional<double> number = number_in(word);
  return number && std::abs(*number) < most ? fmt::format("{}", *number) : word;
}

// Each row's class: the word of one column.
std::vector<int32_t> classes_in_words(const RawTable& table, const RawColumn& column,
                                      Names& classes) {
  const bool are_numbers = numbers_of(column).has_value();
  Names words = column.words;
  if (are_numbers) std::ranges::transform(words, words.begin(), alike);
  if (classes.empty()) {
    const std::set<std::string> different(words.begin(), words.end());
    classes.assign(different.begin(), different.end());
    std::ranges::sort(classes, natural_less);
    check(classes.size() > 1, "column '{}' of {} has one class alone, '{}': expected several",
          column.name, table.file(), classes.front());
    check(std::ssize(classes) < table.rows() || table.rows() < 3,
          "column '{}' of {} has another class in each of its {} rows, such as '{}': expected "
          "classes, or --loss mse for numbers",
          column.name, table.file(), table.rows(), words.front());
  }
  std::vector<int32_t> of_word, of_row;
  for (size_t k = 0; k < words.size(); ++k) {
    auto found = std::ranges::find(classes, words[k]);
    if (found == classes.end()) found = std::ranges::find(classes, column.words[k]);
    check(found != classes.end(), "{} is '{:.40}', but the classes are {}",
          table.place(column.first_lines[k], column.name), column.words[k], some_of(classes, 20));
    of_word.push_back(static_cast<int32_t>(found - classes.begin()));
  }
  for (const int32_t code : column.codes) of_row.push_back(of_word[static_cast<size_t>(code)]);
  return of_row;
}

std::vector<double> numbers_in(const RawColumn& column) {
  const std::vector<double> of_word = numbers_of(column).value();
  std::vector<double> numbers;
  for (const int32_t code : column.codes) numbers.push_back(of_word[static_cast<size_t>(code)]);
  return numbers;
}

// Each row's class: the one of several columns that is 1.
std::vector<int32_t> classes_in_columns(const RawTable& table,
                                        const std::vector<const RawColumn*>& targets) {
  std::vector<std::vector<double>> columns;
  for (const RawColumn* column : targets) {
    check_numbers(table, *column, ": 0 or 1");
    columns.push_back(numbers_in(*column));
  }
  std::vector<int32_t> classes;
  for (size_t n = 0; n < columns.front().size(); ++n) {
    size_t ones = 0, zeros = 0, at = 0;
    for (size_t k = 0; k < columns.size(); ++k) {
      if (columns[k][n] == 1) ++ones, at = k;
      zeros += columns[k][n] == 0;
    }
    check(ones == 1 && ones + zeros == columns.size(),
          "'{}', line {}: {} of the columns of --target are 1 and {} are 0: expected one 1 and "
          "else 0 for --loss cross-entropy, or --loss bce if a row may have several",
          table.path.string(), table.lines[n], ones, zeros);
    classes.push_back(static_cast<int32_t>(at));
  }
  return classes;
}

}  // namespace

Answers detail::read_answers(const RawTable& table, const TableOptions& o, TableColumns& columns) {
  std::vector<const RawColumn*> targets;
  const bool is_known = !columns.targets.empty();
  for (const std::string& name : o.targets) {
    targets.push_back(&table.at(name, ""));
    if (!is_known) columns.targets.push_back({.name = name});
  }
  if (columns.loss.empty()) columns.loss = usual_loss(table, targets);
  Answers answers;
  if (columns.loss == loss_of_classes) {
    if (targets.size() == 1) {
      answers.classes = classes_in_words(table, *targets.front(), columns.classes);
    } else {
      answers.classes = classes_in_columns(table, targets);
      columns.classes = columns.names();
    }
    return answers;
  }
  for (const RawColumn* column : targets) {
    check_numbers(table, *column, fmt::format(" for --loss {}", columns.loss));
    if (columns.loss == loss_of_labels)
      for (size_t k = 0; k < column->words.size(); ++k) {
        const double x = *number_in(column->words[k]);
        check(x == 0 || x == 1, "{} is {}, expected 0 or 1 for --loss bce",
              table.place(column->first_lines[k], column->name), column->words[k]);
      }
    answers.numbers.push_back(numbers_in(*column));
  }
  return answers;
}

Field detail::targets_of(const RawTable& table, const Answers& answers, const TableColumns& columns,
                         std::span<const int64_t> rows) {
  const int64_t N = std::ssize(rows), K = std::ssize(columns.targets);
  Field field{.name = "targets", .values = {}, .encoding = Encoding::number};
  if (columns.loss == loss_of_classes) {
    field.encoding = Encoding::index;
    field.classes = std::ssize(columns.classes);
    field.class_names = columns.classes;
    field.values = Tensor::empty({N}, DType::i32, Device::cpu, Category::data);
    const auto to = field.values.span<int32_t>();
    for (size_t k = 0; k < rows.size(); ++k) to[k] = answers.classes[static_cast<size_t>(rows[k])];
    return field;
  }
  field.classes = K;
  field.class_names = columns.names();
  field.values = Tensor::empty({N, K}, DType::f32, Device::cpu, Category::data);
  auto to = field.values.span<float>().begin();
  for (const int64_t n : rows)
    for (size_t k = 0; k < columns.targets.size(); ++k) {
      const auto row = static_cast<size_t>(n);
      *to++ = standardized(answers.numbers[k][row], columns.targets[k], table, row);
    }
  return field;
}

}  // namespace accrue
