#pragma once

#include <string>
#include <vector>

#include "python/network.h"

namespace accrue::python {

// The value of a call. Throws Error that names the call, and the sizes that do not fit.
std::vector<Value> call_op(const GraphOp& op, std::vector<Value> operands,
                           Graph::Attributes attributes);
Value call_layer(const Layer& layer, const Value& x, std::string name);
Value constant_of(Expression::Numbers numbers, std::string name = "");

// A function for each op of graphs, also as a method of values, and operators.
void add_functions(nb::module_& module, nb::class_<Value>& value);

}  // namespace accrue::python
