#pragma once

#include <string_view>
#include <vector>

namespace accrue::python {

// An op of graphs by its name, and what it computes. scripts/list_ops.py makes the texts of the
// headers' contracts when the module is built, and docs/ops.md of the same.
struct OpDoc {
  std::string_view name;
  const char* text;
};
const std::vector<OpDoc>& op_docs();

}  // namespace accrue::python
