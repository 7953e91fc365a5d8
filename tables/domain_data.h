#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tables/columns.h"

namespace accrue::detail {

// The wishes for a table.
struct TableOptions {
  std::vector<std::string> targets{};     // the columns to learn
  std::vector<std::string> left_out{};    // columns that the network does not see
  std::vector<std::string> categories{};  // columns of numbers that are classes
  std::string weights{};                  // the column of how much a sample counts
  bool weights_may_lack = false;          // then all samples of such a table count alike
  // Empty: by what the targets hold, or as `known` has it, which may have another loss of numbers.
  std::string loss{};
  double hold_out = 0.1;  // the share of the rows that is for the test
  // How weights see a table, where there are some; columns that they do not know are left alone.
  std::optional<TableColumns> known{};
  bool has_new_head = false;  // with `known`: the targets are learned anew
  bool is_asked = false;      // the targets are to be answered, and need not be there
};

// Reads a table, as data/csv_reader.h does, into the fields
//   features [N, F] f32   numbers, standardized by the mean and deviation of the rows trained on,
//                         and a number for each class of a column of classes
//   targets               i32 [N] classes, or f32 [N, K], standardized but for the loss bce
//   weights [N]           if there is such a column.
// A column has classes if its first value is no number; then, no other value may be one, either,
// unless the options say that the column has classes. Dataset::taught has the columns, and the
// loss. Which rows are held out depends on their number alone; with none, the test data are the
// rows that are trained on.
// Throws Error, which names line and column, for a missing value and for one of another kind than
// the column's, for a class that `known` does not know, and for a weight below 0. Throws Error also
// for a column that is not there, and if the targets do not fit the loss.
Datasets read_table(const std::filesystem::path& path, const TableOptions& options);
// The two tables of a directory, of the rows to train on and of the test.
Datasets read_tables(const std::filesystem::path& train, const std::filesystem::path& test,
                     const TableOptions& options);
// All rows of a table, in Datasets::test, without targets (TableOptions::is_asked).
Dataset read_questions(const std::filesystem::path& path, const TableOptions& options);

}  // namespace accrue::detail
