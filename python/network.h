#pragma once

#include <string>
#include <vector>

#include "python/expressions.h"

namespace accrue::python {

// A network of values as a layer.
struct Network : Layer {
  struct Input {
    std::string name;
    ValueSizes sizes;
  };
  std::vector<Input> inputs{};
  std::vector<std::string> outputs{};
};

void add_networks(nb::module_& module);

}  // namespace accrue::python
