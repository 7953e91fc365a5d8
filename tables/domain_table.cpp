#include "tables/domain_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "data/csv_reader.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// True for nothing, and for the words that programs write for a number that is missing.
bool is_missing(const std::string& text) {
  constexpr std::array words{"", "na", "n/a", "nan", "null", "none", "?", "-"};
  return std::ranges::find(words, lower(text)) != words.end();
}

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

}  // namespace

std::optional<double> detail::number_in(std::string_view text) {
  double value = 0;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && stop == text.data() + text.size();
  return is_whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

RawTable detail::read_raw(const fs::path& path, const TableOptions& options) {
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

std::optional<std::vector<double>> detail::numbers_of(const RawColumn& column) {
  std::vector<double> numbers;
  for (const std::string& word : column.words) {
    const std::optional<double> number = number_in(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

void detail::check_numbers(const RawTable& table, const RawColumn& column,
                           const std::string& wish) {
  for (size_t k = 0; k < column.words.size(); ++k)
    check(number_in(column.words[k]).has_value(), "{} is '{:.40}', expected a finite number{}",
          table.place(column.first_lines[k], column.name), column.words[k], wish);
}

void detail::check_texts(const RawTable& table, const RawColumn& column, const char* wish) {
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

}  // namespace accrue
