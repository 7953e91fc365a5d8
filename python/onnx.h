#pragma once

#include <nanobind/nanobind.h>

namespace accrue::python {

// Networks that ONNX files describe (onnx/reader/network.h).
void add_onnx(nanobind::module_& module);

}  // namespace accrue::python
