#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace accrue::python {

// An op of graphs by its name: a line, the contract, an example, and the arguments.
// scripts/list_ops.py makes the texts of the headers' contracts when the module is built, and
// docs/ops.md of the same.
struct OpDoc {
  std::string_view name;
  const char *summary, *text, *example;
  std::vector<std::pair<std::string_view, const char*>> arguments;
};
const std::vector<OpDoc>& op_docs();

}  // namespace accrue::python
