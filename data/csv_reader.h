#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"

namespace accrue {

// Reads a text file of rows and columns (CSV), however spreadsheets and languages write it:
//   encoding    UTF-8 with or without a byte order mark, UTF-16, or any encoding that contains
//               ASCII, whose bytes are kept
//   lines       end in LF, CR LF or CR
//   separators  comma, semicolon, tab or bar: the one that the first line names by "sep=;", or
//               else the one that it has most of
//   quotes      quoted fields may hold separators, line ends and doubled quotes
// Spaces around fields are dropped, and rows without text are skipped. The first row names the
// columns. Throws Error, naming file and line, if a quoted text does not end or text follows the
// closing quote, if a row's length differs from the first row's, and for zero bytes.
class CsvReader {
 public:
  explicit CsvReader(std::filesystem::path path);

  const std::vector<std::string>& columns() const { return columns_; }
  // Returns the first column whose name, reduced to small letters and digits, is in `names`.
  std::optional<size_t> column(std::initializer_list<std::string_view> names) const;
  // Turns the first row into a data row. The columns are then called "1", "2", and so on.
  void take_first_row_for_data();

  // Moves to the next row; returns false at the end.
  bool next();
  const std::vector<std::string>& row() const { return row_; }
  const std::string& operator[](size_t column) const { return row_[column]; }
  int64_t line() const { return row_line_; }
  std::string here() const;  // "'file', line 3"

 private:
  bool read_row();
  std::string read_field();
  std::string read_quoted();
  bool at_line_end() const { return at_ == text_.size() || is_line_end(text_[at_]); }
  static bool is_line_end(char c) { return c == '\n' || c == '\r'; }
  void pass_line_end();
  void pass_blanks();
  void find_separator();

  std::filesystem::path path_;
  std::string text_;
  size_t at_ = 0;
  int64_t line_ = 1, row_line_ = 0;
  char separator_ = ',';
  std::vector<std::string> columns_, row_;
  bool is_first_row_data_ = false;
};

}  // namespace accrue
