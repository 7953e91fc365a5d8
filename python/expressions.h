#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/graph_sizes.h"
#include "python/layers.h"

namespace accrue::python {

namespace nb = nanobind;

// Calls on values, such as `y = conv(x) + x`, which networks are made of.

struct Expression;

// A value of a network that is being described: a result of an expression. Without one it stands
// for an operand that is left out.
struct Value {
  std::shared_ptr<const Expression> of{};
  size_t result = 0;

  const ValueSizes& sizes() const;
};

// A part of a network, whose name stands before the names of the parameters and layers within it. A
// part without a name has its number there, as a layer has.
struct Scope {
  std::string name;
  std::shared_ptr<const Scope> within{};
};

// An input, a parameter, constant numbers, or a call of an op or of a layer.
struct Expression {
  struct Weights {
    Shape shape;
    Init init;
    bool is_buffer = false;  // not learned, such as running statistics
  };
  struct Numbers {
    std::vector<double> values;
    Shape shape;
    DType dtype;
  };

  uint64_t number;  // in the order in which they were made
  std::string name{};
  std::vector<Value> operands{};
  std::vector<ValueSizes> results{};
  std::shared_ptr<const Scope> scope{};

  const GraphOp* op = nullptr;
  Graph::Attributes attributes{};
  std::optional<Layer> layer{};
  std::optional<Weights> weights{};
  std::optional<Numbers> numbers{};

  bool is_input() const { return !op && !layer && !weights && !numbers; }
};

// The value of a call. Throws Error that names the call, and the sizes that do not fit.
std::vector<Value> call_op(const GraphOp& op, std::vector<Value> operands,
                           Graph::Attributes attributes);
Value call_layer(const Layer& layer, const Value& x, std::string name);
Value constant_of(Expression::Numbers numbers, std::string name = "");

// What Python makes values by: inputs, weights, constants and calls of functions and layers.
void add_expressions(nb::module_& module);

}  // namespace accrue::python
