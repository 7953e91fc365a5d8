#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "tables/domain_table.h"

namespace accrue::detail {

// The answers of all rows of a table: classes, or numbers.
struct Answers {
  std::vector<int32_t> classes{};              // of each row
  std::vector<std::vector<double>> numbers{};  // of each target, of each row
};

// Fills in the loss, the targets and the classes, and returns what the rows answer.
Answers read_answers(const RawTable& table, const TableOptions& o, TableColumns& columns);
// The answers of these rows as the field of a data set.
Field targets_of(const RawTable& table, const Answers& answers, const TableColumns& columns,
                 std::span<const int64_t> rows);

}  // namespace accrue::detail
