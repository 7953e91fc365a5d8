#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::detail {

// A column of a table as a network sees it: a number x as (x - mean) / std, or a class as one
// number for each of the classes, which is 1 for the column's own and 0 for the others.
struct Column {
  std::string name;
  double mean = 0, std = 1;
  std::vector<std::string> classes{};  // none: numbers

  int64_t width() const { return classes.empty() ? 1 : std::ssize(classes); }
};

// The losses of a column of classes, and of columns of 0 and 1.
inline constexpr const char *loss_of_classes = "cross-entropy", *loss_of_labels = "bce";

// The columns that a network sees and answers with. Weights keep them, so that other tables are
// read in the same way.
struct TableColumns {
  std::vector<Column> features, targets;
  std::string loss;                    // "cross-entropy", "bce", "mse", "l1" or "smooth-l1"
  std::vector<std::string> classes{};  // with cross-entropy: of the answer

  int64_t inputs() const;
  // The numbers in an answer.
  int64_t answers() const { return std::ssize(loss == loss_of_classes ? classes : names()); }
  std::vector<std::string> names() const;  // of the targets

  // As JSON, and back. read() throws Error for anything else.
  std::string written() const;
  static TableColumns read(const std::string& text);
};
// Whether weights can keep the text, which must be UTF-8.
bool may_be_written(const std::string& text);
inline constexpr const char* table_key = "table";  // in the metadata of weights

}  // namespace accrue::detail
