#include "python/network.h"

#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "python/arrays.h"
#include "python/functions.h"
#include "python/values.h"
#include "train/output_losses.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {

// ValueSizes

Shape ValueSizes::of(int64_t samples) const {
  std::vector<int64_t> sizes;
  for (const Extent& extent : shape) sizes.push_back(extent.of(samples));
  return Shape(sizes);
}

std::string to_string(const ValueSizes& sizes) {
  std::string text = to_string(OpValue(sizes.shape));
  text = text.substr(1, text.size() - 2);
  if (text.ends_with(',')) text.pop_back();
  return fmt::format("[{}]{}", text, sizes.dtype == DType::f32 ? "" : " i32");
}

const ValueSizes& Value::sizes() const { return of->results.at(result); }

namespace {

// ValueSizes of which those at two numbers of samples are examples.
ValueSizes sizes_of(const Tensor& of_two, const Tensor& of_three) {
  ValueSizes sizes{.dtype = of_two.dtype() == DType::i32 ? DType::i32 : DType::f32};
  check(of_two.shape().rank() == of_three.shape().rank(),
        "the result has another number of dimensions for other numbers of samples");
  for (int i = 0; i < of_two.shape().rank(); ++i) {
    const int64_t two = of_two.size(i), three = of_three.size(i);
    check(two == three || 3 * two == 2 * three,
          "the result is {} for 2 samples and {} for 3: expected sizes that are the same, or "
          "multiples of the samples",
          of_two.shape(), of_three.shape());
    sizes.shape.push_back(two == three ? Extent(two) : Extent::of_samples(two / 2));
  }
  return sizes;
}

std::string described(const Expression& call) {
  std::vector<std::string> operands;
  for (const Value& operand : call.operands)
    if (operand.of) operands.push_back(to_string(operand.sizes()));
  const std::string name = call.name.empty() ? "" : fmt::format(" '{}'", call.name);
  return fmt::format("{}{} of {}", call.op ? call.op->name : call.layer->describe(), name,
                     fmt::join(operands, " and "));
}

// The results of a call for so many samples, on the device without elements.
class Rehearsal {
 public:
  explicit Rehearsal(const Expression& call) : call_(call) {
    if (!call.layer) {
      attributes_ = call.op->arguments_of(call.attributes);
      return;
    }
    layer_ = call.layer->factory()();
    place(*layer_, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  }

  std::vector<Tensor> results(int64_t samples) const {
    std::vector<Tensor> operands;
    for (const Value& operand : call_.operands)
      operands.push_back(operand.of ? Tensor::empty(operand.sizes().of(samples),
                                                    operand.sizes().dtype, Device::meta)
                                    : Tensor());
    const Pass pass{.samples = Tensor::empty({samples}, DType::i32, Device::meta)};
    const NoGrad no_grad;
    if (layer_) return {(*layer_)(std::move(operands.front()), pass)};
    operands.resize(std::max(operands.size(), call_.op->operands().size()));
    OpCall call(*call_.op, std::move(operands), attributes_,
                {.pass = pass, .node = this, .samples = samples});
    return call_.op->run(call);
  }

 private:
  const Expression& call_;
  std::unique_ptr<accrue::Layer> layer_;
  std::vector<OpValue> attributes_;
};

uint64_t next_number() {
  static uint64_t number = 0;  // under the interpreter's lock
  return number++;
}

// Expressions that are made from now on are within it.
std::shared_ptr<const Scope>& current_scope() {
  static std::shared_ptr<const Scope> scope;  // under the interpreter's lock
  return scope;
}

// Runs the call to know its sizes. Throws Error that names it and its operands.
std::vector<Value> called(Expression call) {
  call.number = next_number();
  call.scope = current_scope();
  try {
    const Rehearsal rehearsal(call);
    const auto of_two = rehearsal.results(2), of_three = rehearsal.results(3);
    for (size_t i = 0; i < of_two.size(); ++i)
      call.results.push_back(sizes_of(of_two[i], of_three[i]));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    fail("{}: {}", described(call), error.what());
  }
  const auto made = std::make_shared<const Expression>(std::move(call));
  std::vector<Value> values;
  for (size_t i = 0; i < made->results.size(); ++i) values.push_back({made, i});
  return values;
}

}  // namespace

std::vector<Value> call_op(const GraphOp& op, std::vector<Value> operands,
                           Graph::Attributes attributes) {
  std::vector<bool> defined;
  for (const Value& operand : operands) defined.push_back(operand.of != nullptr);
  op.check_operands(defined);
  return called({.number = 0,
                 .operands = std::move(operands),
                 .op = &op,
                 .attributes = std::move(attributes)});
}

Value call_layer(const Layer& layer, const Value& x, std::string name) {
  return called(
             {.number = 0, .name = std::move(name), .operands = {x}, .layer = std::optional(layer)})
      .front();
}

Value constant_of(Expression::Numbers numbers, std::string name) {
  ValueSizes sizes{.dtype = numbers.dtype};
  for (const int64_t size : numbers.shape.sizes()) sizes.shape.emplace_back(size);
  return {std::make_shared<const Expression>(Expression{.number = next_number(),
                                                        .name = std::move(name),
                                                        .results = {std::move(sizes)},
                                                        .numbers = std::move(numbers)})};
}

namespace {

DType dtype_of(const std::string& name) {
  check(name == "float32" || name == "int32", "dtype is {}: expected float32 or int32", name);
  return name == "int32" ? DType::i32 : DType::f32;
}

Value input_of(const nb::args& shape, const std::string& dtype, const std::string& name) {
  ValueSizes sizes{.shape = {Extent::of_samples()}, .dtype = dtype_of(dtype)};
  const nb::object all = shape.size() == 1 && !nb::isinstance<nb::int_>(shape[0])
                             ? nb::object(shape[0])
                             : nb::object(shape);
  for (const nb::handle size : all) {
    int64_t number = 0;
    check(nb::try_cast(size, number) && number >= 1,
          "input is of sizes {}: expected whole numbers from 1 on, without the samples",
          shown(all));
    sizes.shape.emplace_back(number);
  }
  return {std::make_shared<const Expression>(
      Expression{.number = next_number(), .name = name, .results = {std::move(sizes)}})};
}

// What Python enters by `with`. Its place is within the part where it is entered first.
struct ScopeOfPython {
  explicit ScopeOfPython(std::string name) : name(std::move(name)) {}

  void enter() {
    auto& current = current_scope();
    if (!made) made = std::make_shared<const Scope>(Scope{name, current});
    outer.push_back(std::exchange(current, made));
  }
  void exit() {
    current_scope() = outer.back();
    outer.pop_back();
  }

  std::string name;
  std::shared_ptr<const Scope> made{};
  std::vector<std::shared_ptr<const Scope>> outer{};
};

Shape shape_in(nb::handle given) {
  std::vector<int64_t> sizes;
  if (nb::isinstance<nb::int_>(given)) sizes.push_back(nb::cast<int64_t>(given));
  else sizes = nb::cast<std::vector<int64_t>>(given);
  return Shape(sizes);
}

Value weights_of(const std::string& name, Expression::Weights weights) {
  Expression made{.number = next_number(),
                  .name = name,
                  .scope = current_scope(),
                  .weights = std::move(weights)};
  made.results.push_back({});
  for (const int64_t size : made.weights->shape.sizes())
    made.results.front().shape.emplace_back(size);
  return {std::make_shared<const Expression>(std::move(made))};
}

Value parameter_of(nb::handle shape, const std::string& name, double mean,
                   std::optional<double> std, std::optional<double> bound) {
  check(!name.empty(), "a parameter has no name: expected name=\"...\", by which weights know it");
  check(!bound || (!std && mean == 0),
        "a parameter has bound={} beside mean or std: expected one distribution", *bound);
  const Init init = bound ? Init::uniform(*bound)
                    : std ? Init::normal(*std, mean)
                          : Init::constant(mean);
  return weights_of(name, {shape_in(shape), init});
}

Value buffer_of(nb::handle shape, const std::string& name, double value) {
  check(!name.empty(), "a buffer has no name: expected name=\"...\", by which weights know it");
  return weights_of(name, {shape_in(shape), Init::constant(value), true});
}

Value constant_in(nb::handle given, const std::string& name) {
  const Array array = as_array(given, "a constant");
  const bool is_whole = is_integers(array);
  const nb::object wide = nb::module_::import_("numpy").attr("ascontiguousarray")(given, "float64");
  const Array numbers = as_array(wide, "a constant");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(int64_t(array.shape(i)));
  const auto* first = static_cast<const double*>(numbers.data());
  return constant_of({std::vector<double>(first, first + numbers.size()), Shape(sizes),
                      is_whole ? DType::i32 : DType::f32},
                     name);
}

// Networks

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

nb::tuple shape_tuple(const Value& value) {
  nb::list sizes;
  for (const Extent& extent : value.sizes().shape)
    sizes.append(extent.per_sample ? nb::cast(extent) : nb::cast(extent.number));
  return nb::tuple(sizes);
}

// Whether its elements are 0 and 1 for false and true: of a comparison, or of such values that are
// moved.
bool has_truth_values(const Value& value) {
  static const std::set<std::string> comparisons = {
      "equal",  "not_equal",   "less",       "less_equal",  "greater",    "greater_equal",
      "is_nan", "logical_and", "logical_or", "logical_xor", "logical_not"};
  static const std::set<std::string> moves = {"reshape", "expand",  "permute", "slice",
                                              "flatten", "squeeze", "flip",    "tile"};
  const Expression& of = *value.of;
  if (!of.op) return false;
  return comparisons.contains(of.op->name) ||
         (moves.contains(of.op->name) && has_truth_values(of.operands.at(0)));
}

// Extents of samples as Python has them: N, 2 N.
void add_extents(nb::module_& m) {
  nb::class_<Extent>(m, "Samples", "So many elements for each sample, as a size of a value.")
      .def("__mul__", [](const Extent& a, int64_t b) { return Extent::of_samples(a.number * b); })
      .def("__rmul__", [](const Extent& a, int64_t b) { return Extent::of_samples(a.number * b); })
      .def("__floordiv__",
           [](const Extent& a, int64_t b) {
             check(b != 0 && a.number % b == 0, "{} samples are not divisible by {}", a.number, b);
             return Extent::of_samples(a.number / b);
           })
      .def("__eq__",
           [](const Extent& a, nb::handle other) {
             Extent* b = nullptr;
             return nb::try_cast(other, b, false) && b && a == *b;
           })
      .def("__hash__", [](const Extent& a) { return a.number; })
      .def("__repr__", [](const Extent& a) {
        return a.number == 1 ? std::string("N") : fmt::format("{} N", a.number);
      });
}

}  // namespace

void add_networks(nb::module_& m) {
  add_extents(m);
  nb::class_<Value> value(
      m, "Value",
      "A value of a network that is being described: what accrue.input() gives, and what layers "
      "and functions give when they are called on values. It has sizes and no elements.");
  value
      .def_prop_ro("shape", &shape_tuple,
                   "Its sizes: numbers, or multiples of the number of samples, N.",
                   nb::for_getter(nb::sig("def shape(self) -> tuple[int | Samples, ...]")))
      .def_prop_ro("_is_truth", &has_truth_values)
      .def("__repr__", [](const Value& v) { return "value " + to_string(v.sizes()); });
  m.def("input", &input_of, "shape"_a, nb::kw_only(), "dtype"_a = "float32", "name"_a = "x",
        "An input of a network: samples of this shape, without their number.",
        nb::sig("def input(*shape: int, dtype: str = 'float32', name: str = 'x') -> Value"));
  m.def("parameter", &parameter_of, "shape"_a, "name"_a, nb::kw_only(), "mean"_a = 0.0,
        "std"_a = nb::none(), "bound"_a = nb::none(),
        "A learned tensor of a network, by its name in weights. It begins with the number `mean`, "
        "or with\nnumbers drawn from N(mean, std^2), or evenly from -bound to bound.",
        nb::sig("def parameter(shape: int | typing.Sequence[int], name: str, *, mean: float = 0.0, "
                "std: float | None = None, bound: float | None = None) -> Value"));
  m.def("buffer", &buffer_of, "shape"_a, "name"_a, nb::kw_only(), "value"_a = 0.0,
        "Numbers of a network that are not learned, and are in files of weights by their name, "
        "such as batch_norm's running_mean. They begin with `value`.",
        nb::sig("def buffer(shape: int | typing.Sequence[int], name: str, *, value: float = 0.0) "
                "-> Value"));
  nb::class_<ScopeOfPython>(
      m, "scope",
      "A part of a network. Parameters and layers that are made in its `with` "
      "block have its name before\ntheirs, and a dot: the name that is given, "
      "or else the part's number in the network.")
      .def(nb::init<std::string>(), "name"_a = "")
      .def_prop_ro("name", [](const ScopeOfPython& scope) { return scope.name; })
      .def("__enter__", &ScopeOfPython::enter)
      .def("__exit__", [](ScopeOfPython& scope, const nb::args&) { scope.exit(); });
  m.def("constant", &constant_in, "array"_a, "name"_a = "",
        "Numbers of a network that are not learned, and are in no file of weights.",
        nb::sig("def constant(array: typing.Any, name: str = '') -> Value"));
  add_functions(m, value);

  nb::object layer = m.attr("Layer");
  nb::setattr(layer, "__call__",
              nb::cpp_function(
                  [](const Layer& self, const Value& x, const std::string& name) {
                    return call_layer(self, x, name);
                  },
                  nb::is_method(), nb::scope(layer), nb::name("__call__"), "x"_a, nb::kw_only(),
                  "name"_a = "",
                  "The layer's value. Its parameters' names begin with `name`, or with its number "
                  "in the network. A layer that is called again has the same weights.",
                  nb::sig("def __call__(self, x: Value, *, name: str = '') -> Value")));
  nb::class_<Network, Layer>(
      m, "Network",
      "The function from inputs to outputs, as a layer: values, lists of values, or dictionaries "
      "of values by name,\nthe names of arrays in data:\n\n"
      "    x = accrue.input(3, 32, 32)\n"
      "    h = accrue.Conv2d(3, 16, 3, padding=1)(x, name=\"stem\")\n"
      "    y = accrue.Conv2d(16, 16, 3, padding=1)(accrue.relu(h)) + h\n"
      "    network = accrue.Network(x, y)\n\n"
      "Parameters are in the order of their first use, and named as their layers were in calls.")
      .def(
          "__init__",
          [](Network* self, nb::handle inputs, nb::handle outputs) {
            new (self) Network(network_of(inputs, outputs));
          },
          "inputs"_a, "outputs"_a,
          nb::sig("def __init__(self, inputs: Value | typing.Sequence[Value] | dict[str, Value], "
                  "outputs: Value | typing.Sequence[Value] | dict[str, Value]) -> None"));
}

}  // namespace accrue::python
