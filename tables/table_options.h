#pragma once

#include <optional>
#include <string>
#include <vector>

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

}  // namespace accrue::detail
