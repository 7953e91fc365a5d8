#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/inside.h"
#include "data/words.h"
#include "tables/table_options.h"

namespace accrue::detail {

// A column as a file has it: numbers, or words by their numbers in `words`.
struct RawColumn {
  std::string name;
  bool has_words = false;
  std::vector<double> numbers{};
  std::vector<int32_t> codes{};
  std::vector<std::string> words{};
  std::vector<int64_t> first_lines{};  // of each word
};

struct RawTable {
  std::filesystem::path path;
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
      std::vector<std::string> names;
      for (const RawColumn& column : columns) names.push_back(column.name);
      fail("{}'{}' has no column '{}': it has {}", option, path.string(), name, some_of(names, 20));
    }
    return *found;
  }
};

// Reads the columns that the options need, each as its first value says.
RawTable read_raw(const std::filesystem::path& path, const TableOptions& options);

inline bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// The finite number that a text is.
std::optional<double> number_in(std::string_view text);
// The numbers of a column's words; nothing if some are none.
std::optional<std::vector<double>> numbers_of(const RawColumn& column);
// Throws Error for a target whose first value is a number and another is none, unless it has
// classes.
void check_numbers(const RawTable& table, const RawColumn& column, const std::string& wish);
// Throws Error for a column whose first value is no number, but another is, or would be with a
// decimal point: the first may be missing, infinite or mistyped.
void check_texts(const RawTable& table, const RawColumn& column, const char* wish);

}  // namespace accrue::detail
