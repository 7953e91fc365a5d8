#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "tables/table_options.h"

namespace accrue::detail {

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
