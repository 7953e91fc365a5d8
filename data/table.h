#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Numbers in rows and columns, for fields of a data set (data/dataset.h).
class Table {
 public:
  Table(std::vector<std::string> columns, std::vector<float> values);

  int64_t rows() const { return int64_t(values_.size() / columns_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  // These columns as f32 [rows, columns.size()], for Encoding::number. Throws Error for a column
  // that is not there.
  Tensor numbers(std::span<const std::string> columns) const;
  // One column as i32 [rows], for Encoding::index. Throws Error unless the column is there and all
  // its values are whole numbers in [0, classes).
  Tensor indices(const std::string& column, int64_t classes) const;

 private:
  size_t column(const std::string& name) const;

  std::vector<std::string> columns_;
  std::vector<float> values_;  // row by row
};

// Comma-separated values in UTF-8, plain or gzip: numbers alone, a row a line. The first line has
// the columns' names if any of it is a word, other than those for a missing number, such as NaN;
// otherwise they are "0", "1", ... Throws Error, naming file and line, for anything else, including
// numbers that are not finite.
Table read_csv(const std::filesystem::path& path);

// An array of NumPy's .npy format (https://numpy.org/doc/stable/reference/generated/
// numpy.lib.format.html), versions 1 to 3, in row-major order, little-endian: u1 as u8, i4 as i32,
// f4 as f32; i8 as i32 if its values are, and f8 rounded to f32. In Category::data. Throws Error,
// naming the file, for any other.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace accrue
