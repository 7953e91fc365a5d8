#pragma once

#include <nanobind/nanobind.h>

#include "core/inside.h"
#include "layers/module.h"

namespace accrue::python {

// Describes a layer; each network makes its own from the description. `dropouts` counts the Dropout
// layers of a network, because their masks must differ.
struct Layer {
  std::function<std::unique_ptr<accrue::Layer>(uint32_t& dropouts)> make{};
  // The same for copies: one layer that a network calls twice has one set of weights.
  std::shared_ptr<const int> identity = std::make_shared<const int>(0);

  std::string describe() const;
  ModelFactory factory() const;
};

void add_layers(nanobind::module_& module);

}  // namespace accrue::python
