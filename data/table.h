#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// A table of numbers in rows and columns, for fields of a data set (data/dataset.h).
class Table {
 public:
  Table(std::vector<std::string> columns, std::vector<float> values);

  int64_t rows() const { return int64_t(values_.size() / columns_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  // These columns as f32 [rows, columns.size()], for Encoding::number. Throws Error for a missing
  // column.
  Tensor numbers(std::span<const std::string> columns) const;
  // One column as i32 [rows], for Encoding::index. Throws Error if the column is missing or a value
  // is not a whole number in [0, classes).
  Tensor indices(const std::string& column, int64_t classes) const;
  // Classes that are written as a column each, as i32 [rows]: the one of these columns that is 1.
  // Throws Error unless the columns are there and each row has one 1 and else 0 in them.
  Tensor one_hot(std::span<const std::string> columns) const;
  // One column as f32 [rows], for Encoding::weight. Throws Error unless the column is there and has
  // numbers that are not negative.
  Tensor weights(const std::string& column) const;

 private:
  size_t column(const std::string& name) const;

  std::vector<std::string> columns_;
  std::vector<float> values_;  // row by row
};

// Reads comma-separated numbers in UTF-8, plain or gzip, one row per line. The first line names the
// columns if any of its values is a word, except words for a missing number, such as NaN. Otherwise
// the columns are "0", "1", ... Throws Error, naming file and line, for anything else, including
// numbers that are not finite.
Table read_csv(const std::filesystem::path& path);

// Reads an array of NumPy's .npy format
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to 3,
// row-major and little-endian, into Category::data. u1 becomes u8, i4 and i8 become i32, f4 and f8
// become f32. f8 is rounded, and i8 must fit. Throws Error, naming the file, for any other file.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace accrue
