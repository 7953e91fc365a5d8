#pragma once

#include <nanobind/nanobind.h>

#include "core/inside.h"
#include "layers/module.h"

namespace accrue::python {

// Describes a layer; each network makes its own from the description. `dropouts` counts the Dropout
// layers of a network, because their masks must differ.
struct Layer {
  std::function<std::unique_ptr<accrue::Layer>(uint32_t& dropouts)> make;
  std::string describe() const;
  ModelFactory factory() const;
};

void add_layers(nanobind::module_& module);

}  // namespace accrue::python
