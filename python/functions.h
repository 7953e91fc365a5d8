#pragma once

#include "python/expressions.h"

namespace accrue::python {

// A function for each op of graphs, also as a method of values, and operators.
void add_functions(nb::module_& module, nb::class_<Value>& value);

}  // namespace accrue::python
