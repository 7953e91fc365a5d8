#include "tables/domain_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <ranges>
#include <set>

#include "core/random.h"
#include "data/csv_reader.h"
#include "data/words.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && stop == text.data() + text.size();
  return is_whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// True for nothing, and for the words that programs write for a number that is missing.
bool is_missing(const std::string& text) {
  constexpr std::array words{"", "na", "n/a", "nan", "null", "none", "?", "-"};
  return std::ranges::find(words, lower(text)) != words.end();
}

bool has(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// A column as a file has it: numbers, or words by their numbers in `words`.
struct RawColumn {
  std::string name;
  bool has_words = false;
  std::vector<double> numbers{};
  std::vector<int32_t> codes{};
  Names words{};
  std::vector<int64_t> first_lines{};  // of each word
};

struct RawTable {
  fs::path path;
  std::vector<RawColumn> columns;
  std::vector<int64_t> lines;  // of the rows

  int64_t rows() const { return std::ssize(lines); }
  std::string file() const { return path.filename().string(); }
  // Where the value of a row is, for messages.
  std::string place(int64_t line, const std::string& column) const {
    return fmt::format("'{}', line {}, column '{}'", path.string(), line, column);
  }
  const RawColumn* find(const std::string& name) const {
    const auto found = std::ranges::find(columns, name, &RawColumn::name);
    return found == columns.end() ? nullptr : &*found;
  }
  const RawColumn& at(const std::string& name, const char* option) const {
    const RawColumn* const found = find(name);
    if (!found) {
      Names names;
      for (const RawColumn& column : columns) names.push_back(column.name);
      fail("{}'{}' has no column '{}': it has {}", option, path.string(), name, some_of(names, 20));
    }
    return *found;
  }
};

// Throws Error unless the text, which is at `place`, is UTF-8.
void check_encoding(const std::string& text, const std::string& place) {
  check(may_be_written(text),
        "{} has a text in another encoding than UTF-8 or UTF-16: expected the table saved as UTF-8",
        place);
}

enum class Reads { nothing, numbers, words };

// How the columns of a file are read.
class ColumnKinds {
 public:
  ColumnKinds(const CsvReader& csv, const fs::path& path, const TableOptions& options)
      : path_(path), o_(options), names_(csv.columns()) {
    check(
        !std::ranges::all_of(names_, [](const auto& name) { return number_in(name).has_value(); }),
        "'{}' begins with numbers: expected a first line with the names of the columns",
        path_.string());
    for (const std::string& name : names_)
      check_encoding(name, fmt::format("'{}', the first line,", path_.string()));
    check_given("--target", o_.targets, o_.is_asked);
    check_given("--leave-out", o_.left_out, o_.known.has_value());
    check_given("--categories", o_.categories, o_.known.has_value());
    if (!o_.weights.empty() && !o_.is_asked)
      check_given("--weight-column", {o_.weights}, o_.weights_may_lack);
    check_used_once();
    for (const std::string& name : names_) {
      const std::optional<Reads> reads = reads_of(name);
      reads_.push_back(reads);
      check(reads == Reads::nothing || std::ranges::count(names_, name) == 1,
            "'{}' has several columns '{}': expected different names", path_.string(), name);
    }
  }

  // The first value of a column shows its kind. Returns true if that is known of all.
  bool see(const Names& row) {
    bool knows_all = true;
    for (size_t c = 0; c < row.size(); ++c) {
      if (reads_[c]) continue;
      if (is_missing(row[c])) knows_all = false;
      else reads_[c] = number_in(row[c]) ? Reads::numbers : Reads::words;
    }
    return knows_all;
  }

  Reads of(size_t column) const { return reads_[column].value_or(Reads::numbers); }

 private:
  // Nothing where the first value will say it.
  std::optional<Reads> reads_of(const std::string& name) const {
    const bool is_target = has(o_.targets, name);
    if (is_target) return o_.is_asked ? Reads::nothing : Reads::words;
    if (!o_.weights.empty() && name == o_.weights && !o_.is_asked) return Reads::numbers;
    if (o_.known) {
      const auto found = std::ranges::find(o_.known->features, name, &Column::name);
      if (found == o_.known->features.end()) return Reads::nothing;
      return found->classes.empty() ? Reads::numbers : Reads::words;
    }
    if (has(o_.left_out, name)) return Reads::nothing;
    check(!name.empty(),
          "'{}': column {} has no name: expected one (pandas writes none for its index unless "
          "index=False)",
          path_.string(), std::ranges::find(names_, name) - names_.begin() + 1);
    if (has(o_.categories, name)) return Reads::words;
    return std::nullopt;
  }
  // The features that weights know are read as they know them, whatever else is asked for.
  void check_used_once() const {
    check(!has(o_.targets, o_.weights),
          "--weight-column {0} is a column of --target: expected another column, or no "
          "--weight-column",
          o_.weights);
    for (const std::string& name : o_.categories)
      check(!has(o_.targets, name),
            "--categories {0} is a column of --target, whose values are classes by --loss "
            "cross-entropy: expected columns that the network sees",
            name);
    if (!o_.known) return;
    check(o_.has_new_head || o_.targets == o_.known->names(),
          "--target is {}, but they were trained with {}: expected the same, or none",
          fmt::join(o_.targets, ","), fmt::join(o_.known->names(), ","));
    for (const Column& seen : o_.known->features) {
      check(!has(o_.targets, seen.name),
            "--target {0}: the weights see the column {0}: expected another column, or weights "
            "that do not see it",
            seen.name);
      check(!has(o_.left_out, seen.name),
            "--leave-out {0}: the weights see the column {0}: expected columns that they do not "
            "see",
            seen.name);
      check(!seen.classes.empty() || !has(o_.categories, seen.name),
            "--categories {0}: the weights see the column {0} as numbers: expected no "
            "--categories, because weights keep how columns are seen",
            seen.name);
      check(seen.classes.empty() || seen.name != o_.weights || o_.is_asked,
            "--weight-column {0}: the weights see the column {0} as classes: expected a column of "
            "numbers",
            seen.name);
    }
  }
  void check_given(const char* option, const Names& given, bool may_lack) const {
    for (const std::string& name : given) {
      const bool has_commas = std::ranges::any_of(
          names_, [](const auto& column) { return column.find(',') != std::string::npos; });
      check(may_lack || has(names_, name), "{} {}: '{}' has no such column, but {}{}", option, name,
            path_.string(), some_of(names_, 20),
            has_commas ? "; a column with a comma in its name cannot be given: rename it" : "");
      check(std::ranges::count(given, name) == 1, "{} names the column {} twice", option, name);
    }
  }

  const fs::path& path_;
  const TableOptions& o_;
  Names names_;
  std::vector<std::optional<Reads>> reads_;
};

RawTable read_raw(const fs::path& path, const TableOptions& options) {
  RawTable table{.path = path};
  ColumnKinds kinds = [&] {
    CsvReader csv(path);
    ColumnKinds made(csv, path, options);
    while (csv.next() && !made.see(csv.row())) {
    }
    return made;
  }();
  CsvReader csv(path);
  std::vector<std::map<std::string, int32_t>> codes(csv.columns().size());
  for (size_t c = 0; c < csv.columns().size(); ++c)
    table.columns.push_back({.name = csv.columns()[c], .has_words = kinds.of(c) == Reads::words});
  while (csv.next()) {
    table.lines.push_back(csv.line());
    for (size_t c = 0; c < table.columns.size(); ++c) {
      RawColumn& column = table.columns[c];
      const std::string& text = csv[c];
      if (kinds.of(c) == Reads::nothing) continue;
      if (kinds.of(c) == Reads::words) {
        check(!text.empty(),
              "{}: there is no value: expected one; fill it in, or leave out the "
              "column or the row",
              table.place(csv.line(), column.name));
        const auto [found, is_new] =
            codes[c].emplace(text, static_cast<int32_t>(column.words.size()));
        if (is_new) {
          check_encoding(text, table.place(csv.line(), column.name));
          column.words.push_back(text);
          column.first_lines.push_back(csv.line());
        }
        column.codes.push_back(found->second);
        continue;
      }
      const std::optional<double> value = number_in(text);
      check(value || !is_missing(text),
            "{}: the number is missing ('{}'): expected one; fill it in, or leave out the column "
            "or the row",
            table.place(csv.line(), column.name), text);
      check(value.has_value(),
            "{} is '{:.40}', expected a finite number, as above; classes are named by "
            "--categories",
            table.place(csv.line(), column.name), text);
      column.numbers.push_back(*value);
    }
  }
  check(table.rows() > 0, "'{}' has names of columns and no rows", path.string());
  return table;
}

// The numbers of a column's words; nothing if some are none.
std::optional<std::vector<double>> numbers_of(const RawColumn& column) {
  std::vector<double> numbers;
  for (const std::string& word : column.words) {
    const std::optional<double> number = number_in(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// Throws Error for a target whose first value is a number and another is none, unless it has
// classes.
void check_numbers(const RawTable& table, const RawColumn& column, const std::string& wish) {
  for (size_t k = 0; k < column.words.size(); ++k)
    check(number_in(column.words[k]).has_value(), "{} is '{:.40}', expected a finite number{}",
          table.place(column.first_lines[k], column.name), column.words[k], wish);
}

// Throws Error for a column whose first value is no number, but another is, or would be with a
// decimal point: the first may be missing, infinite or mistyped.
void check_texts(const RawTable& table, const RawColumn& column, const char* wish) {
  for (size_t k = 0; k < column.words.size(); ++k) {
    const std::string &word = column.words[k],
                      place = table.place(column.first_lines[k], column.name);
    check(!number_in(word),
          "{} is the number {}, but the first value is '{:.40}': expected numbers "
          "alone; {}",
          place, word, column.words.front(), wish);
    std::string pointed = word;
    std::ranges::replace(pointed, ',', '.');
    check(!number_in(pointed), "{} is '{}', expected a decimal point in numbers, as in {}; {}",
          place, word, pointed, wish);
  }
}

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

struct Answers {
  std::vector<int32_t> classes{};              // of each row
  std::vector<std::vector<double>> numbers{};  // of each target, of each row
};

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

// Fills in the loss, the targets and the classes, and returns what the rows answer.
Answers read_answers(const RawTable& table, const TableOptions& o, TableColumns& columns) {
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

// The mean and deviation of these rows. A column of one value stays as it is, but for the mean.
void measure(Column& column, const std::vector<double>& values, std::span<const int64_t> rows) {
  const auto value = [&](int64_t n) { return values[static_cast<size_t>(n)]; };
  const auto [least, most] = std::ranges::minmax(rows | std::views::transform(value));
  column.mean = least;
  column.std = 1;
  if (least == most) return;
  // Where squares would overflow or vanish, numbers are measured in a power of two near the
  // largest.
  constexpr int has_squares = 400;
  int unit = 0;
  std::frexp(std::max(std::abs(least), std::abs(most)), &unit);
  if (std::abs(unit) < has_squares) unit = 0;
  double sum = 0, squares = 0;
  for (const int64_t n : rows) sum += std::ldexp(value(n), -unit);
  const double mean = sum / double(rows.size());
  for (const int64_t n : rows) {
    const double x = std::ldexp(value(n), -unit) - mean;
    squares += x * x;
  }
  const double std = std::ldexp(std::sqrt(squares / double(rows.size())), unit);
  column.mean = std::ldexp(mean, unit);
  if (std > 0) column.std = std;
}

// Throws Error unless float32 can hold the number.
float standardized(double x, const Column& column, const RawTable& table, size_t row) {
  const auto y = static_cast<float>((x - column.mean) / column.std);
  check(std::isfinite(y),
        "{} is {}, too far from the mean {} and deviation {} of the rows trained on: float32 "
        "cannot hold that",
        table.place(table.lines[row], column.name), x, column.mean, column.std);
  return y;
}

void choose_features(const RawTable& table, const TableOptions& o, TableColumns& columns,
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

// [rows.size(), F]
Tensor features_of(const RawTable& table, const TableColumns& columns,
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

Field targets_of(const RawTable& table, const Answers& answers, const TableColumns& columns,
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
