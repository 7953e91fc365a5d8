#include "python/network.h"

#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "python/docstrings.h"
#include "python/values.h"
#include "train/output_losses.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {

namespace {

using Expressions = std::vector<std::shared_ptr<const Expression>>;

// All expressions that the values need, in the order in which they were made.
Expressions needed_by(const std::vector<Value>& values) {
  Expressions found;
  std::set<const Expression*> seen;
  for (const Value& value : values)
    if (seen.insert(value.of.get()).second) found.push_back(value.of);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto each = found[i];  // the list moves as it grows
    for (const Value& operand : each->operands)
      if (operand.of && seen.insert(operand.of.get()).second) found.push_back(operand.of);
  }
  std::ranges::sort(found, {}, [](const auto& each) { return each->number; });
  return found;
}

struct Plan {
  std::vector<Value> inputs, outputs;
  std::vector<std::string> input_names, output_names;  // of outputs without names empty
  Expressions expressions;
};

// Bytes of the results for a sample.
double bytes_of(const Expression& call) {
  double bytes = 0;
  for (const ValueSizes& result : call.results)
    bytes += 4 * double(result.of(3).numel() - result.of(2).numel());
  return bytes;
}

// The names of parameters and layers of a network, behind the names of the parts that they are in.
// A part or layer without a name has its number there.
class Names {
 public:
  std::string of(const Scope* scope, const std::string& name, int places = 1) {
    const std::string own = name.empty() ? fmt::format("{}", number_in(scope, places)) : name;
    return scope ? fmt::format("{}.{}", of(*scope), own) : own;
  }

 private:
  const std::string& of(const Scope& scope) {
    const auto found = scopes_.find(&scope);
    if (found != scopes_.end()) return found->second;
    return scopes_[&scope] = of(scope.within.get(), scope.name);
  }
  int number_in(const Scope* scope, int places) {
    return std::exchange(next_[scope], next_[scope] + places);
  }

  std::map<const Scope*, int> next_;
  std::map<const Scope*, std::string> scopes_;
};

std::unique_ptr<accrue::Layer> graph_of(const Plan& plan, uint32_t& dropouts) {
  Names names;
  auto graph = std::make_unique<Graph>();
  std::unordered_map<const Expression*, std::vector<Graph::Value>> values;
  std::unordered_map<const void*, const accrue::Layer*> layers;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    values[plan.inputs[i].of.get()] = {graph->input(plan.input_names[i])};
  const auto value_of = [&](const Value& value) {
    return value.of ? values.at(value.of.get()).at(value.result) : Graph::Value();
  };
  int constants = 0, calls = 0;
  for (const auto& each : plan.expressions) {
    if (each->is_input()) continue;
    std::vector<Graph::Value>& made = values[each.get()];
    std::vector<Graph::Value> operands;
    for (const Value& operand : each->operands) operands.push_back(value_of(operand));
    if (each->weights) {
      const auto& [shape, init, is_buffer] = *each->weights;
      const std::string name = names.of(each->scope.get(), each->name);
      made = {is_buffer ? graph->buffer(name, shape, init) : graph->parameter(name, shape, init)};
    } else if (each->numbers) {
      const auto& [numbers, shape, dtype] = *each->numbers;
      const std::string name =
          each->name.empty() ? fmt::format("constant {}", ++constants) : each->name;
      made = {graph->constant(name, numbers, shape, dtype)};
    } else {
      if (each->op) {
        // "encoder.%3": where it is, for errors and profiles.
        const std::string name =
            each->scope ? names.of(each->scope.get(), fmt::format("%{}", ++calls)) : each->name;
        made = graph->call(each->op->name, operands, each->results.size(), each->attributes, name);
      } else {
        const accrue::Layer*& layer = layers[each->layer->identity.get()];
        if (!layer) {
          auto its = each->layer->make(dropouts);
          const int places = its->places();
          layer = &graph->add(std::move(its), names.of(each->scope.get(), each->name, places));
        }
        made = {graph->call(*layer, operands.front())};
      }
      graph->weigh(made.front(), std::max(bytes_of(*each), 1.0));
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    graph->output(value_of(plan.outputs[i]), plan.output_names[i]);
  return graph;
}

struct NamedValues {
  std::vector<Value> values;
  std::vector<std::string> names{};  // of a dictionary
};

// A value, or several in a list or by their names.
NamedValues values_in(nb::handle given, const char* argument) {
  NamedValues found;
  Value* value = nullptr;
  if (nb::try_cast(given, value, false) && value) return {{*value}};
  const bool are_named = nb::isinstance<nb::dict>(given);
  check(are_named || nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given),
        "{} is {}: expected a value, or a list or a dictionary of values", argument, shown(given));
  const auto append = [&](nb::handle each) {
    check(nb::try_cast(each, value, false) && value, "{} has {}: expected values", argument,
          shown(each));
    found.values.push_back(*value);
  };
  if (!are_named) {
    for (const nb::handle each : given) append(each);
  } else {
    for (const auto& [name, each] : nb::cast<nb::dict>(given)) {
      check(nb::isinstance<nb::str>(name) && nb::len(name) > 0,
            "{} has the key {}: expected names, as text", argument, shown(name));
      found.names.push_back(nb::cast<std::string>(name));
      append(each);
    }
  }
  check(!found.values.empty(), "{} is empty: expected a value", argument);
  return found;
}

// The names that inputs have by themselves, with numbers if two have the same one.
std::vector<std::string> names_of(const std::vector<Value>& inputs) {
  std::vector<std::string> names;
  for (const Value& input : inputs) names.push_back(input.of->name);
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() < names.size())
    for (size_t i = 0; i < names.size(); ++i) names[i] += std::to_string(i);
  return names;
}

Plan plan_of(nb::handle inputs, nb::handle outputs) {
  NamedValues seen = values_in(inputs, "inputs"), answered = values_in(outputs, "outputs");
  Plan plan{.inputs = std::move(seen.values),
            .outputs = std::move(answered.values),
            .input_names = std::move(seen.names),
            .output_names = std::move(answered.names),
            .expressions = {}};
  for (const Value& input : plan.inputs) {
    check(input.of->is_input(), "an input of a network is a result {}: expected accrue.input(...)",
          to_string(input.sizes()));
    check(std::ranges::count(plan.inputs, input.of, &Value::of) == 1,
          "the input {} {} is there twice: expected it once", input.of->name,
          to_string(input.sizes()));
  }
  if (plan.input_names.empty()) plan.input_names = names_of(plan.inputs);
  plan.output_names.resize(plan.outputs.size());
  for (const std::string& name : plan.input_names)
    check(std::ranges::find(plan.output_names, name) == plan.output_names.end(),
          "an input and an output of the network are called '{}': expected names that differ",
          name);
  return plan;
}

Network network_of(nb::handle inputs, nb::handle outputs) {
  Plan plan = plan_of(inputs, outputs);
  plan.expressions = needed_by(plan.outputs);
  for (const auto& each : plan.expressions) {
    const bool is_given =
        std::ranges::any_of(plan.inputs, [&](const Value& input) { return input.of == each; });
    check(!each->is_input() || is_given, "the outputs need the input {} {}: expected it in inputs",
          each->name, to_string(each->results.front()));
  }
  Network network;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    network.inputs.push_back({plan.input_names[i], plan.inputs[i].sizes()});
  network.make = [plan](uint32_t& dropouts) { return graph_of(plan, dropouts); };
  // Names that are taken twice are an error here.
  uint32_t dropouts = 0;
  const auto model = network.make(dropouts);
  network.outputs = output_names(*model);
  std::set<std::string> names;
  model->visit_parameters([&](const std::string& name, Parameter&) {
    check(names.insert(name).second,
          "two parameters of the network are called '{}': expected a name for each", name);
  });
  return network;
}

// T, if the network takes integers [N, T] alone.
std::optional<int64_t> rows_of_tokens(const Network& network) {
  if (network.inputs.size() != 1) return {};
  const ValueSizes& sizes = network.inputs.front().sizes;
  if (sizes.dtype != DType::i32 || sizes.shape.size() != 2) return {};
  return sizes.of(1)[1];
}

}  // namespace

void add_networks(nb::module_& m) {
  const Docstring of_network{
      .summary = "The function from inputs to outputs, as a layer.",
      .more =
          "Parameters are in the order of their first use, and named as their layers were in "
          "calls.",
      .parameters = {{"inputs", "Value, or list or dict of Value",
                      "Results of accrue.input(); a dictionary has the names of arrays in data."},
                     {"outputs", "Value, or list or dict of Value",
                      "Values that depend on the inputs, likewise."}},
      .raises = "For outputs that need other inputs, and names that are there twice.",
      .examples = R"(>>> x = accrue.input(3, 32, 32)
>>> h = accrue.Conv2d(3, 16, 3, padding=1)(x, name="stem")
>>> y = accrue.Conv2d(16, 16, 3, padding=1)(accrue.relu(h)) + h
>>> network = accrue.Network(x, y))"};
  nb::class_<Network, Layer>(m, "Network", lasting(of_network.text()))
      .def(
          "__init__",
          [](Network* self, nb::handle inputs, nb::handle outputs) {
            new (self) Network(network_of(inputs, outputs));
          },
          "inputs"_a, "outputs"_a,
          nb::sig("def __init__(self, inputs: Value | typing.Sequence[Value] | dict[str, Value], "
                  "outputs: Value | typing.Sequence[Value] | dict[str, Value]) -> None"))
      .def_prop_ro("_inputs",
                   [](const Network& self) {
                     nb::list names;
                     for (const Network::Input& input : self.inputs) names.append(input.name);
                     return names;
                   })
      .def_prop_ro("_outputs", [](const Network& self) { return self.outputs; })
      .def_prop_ro("_rows_of_tokens", &rows_of_tokens,
                   "The number of tokens that it takes, [N, T].",
                   nb::for_getter(nb::sig("def _rows_of_tokens(self) -> int | None")));
}

}  // namespace accrue::python
