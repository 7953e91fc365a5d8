#pragma once

#include <nanobind/nanobind.h>

#include "core/inside.h"
#include "layers/module.h"

namespace accrue::python {

// A layer by which networks are described; each network gets one of its own. `dropouts` counts
// those of a network, whose masks differ.
struct Layer {
  std::function<std::unique_ptr<accrue::Layer>(uint32_t& dropouts)> make;
  std::string describe() const;
  ModelFactory factory() const;
};

void add_layers(nanobind::module_& module);

}  // namespace accrue::python
