#include "python/expressions.h"

#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>

#include "python/arrays.h"
#include "python/docstrings.h"
#include "python/functions.h"
#include "python/values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {

const ValueSizes& Value::sizes() const { return of->results.at(result); }

namespace {

std::string words_of(const Expression& call) {
  std::vector<std::string> operands;
  for (const Value& operand : call.operands)
    if (operand.of) operands.push_back(to_string(operand.sizes()));
  const std::string name = call.name.empty() ? "" : fmt::format(" '{}'", call.name);
  return fmt::format("{}{} of {}", call.op ? call.op->name : call.layer->describe(), name,
                     fmt::join(operands, " and "));
}

std::vector<ValueSizes> results_of(const Expression& call) {
  if (call.layer) return {sizes_of_result(call.layer->factory(), call.operands.front().sizes())};
  std::vector<const ValueSizes*> operands;
  for (const Value& operand : call.operands)
    operands.push_back(operand.of ? &operand.sizes() : nullptr);
  return sizes_of_results(*call.op, operands, call.attributes);
}

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
    call.results = results_of(call);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    fail("{}: {}", words_of(call), error.what());
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

Value stored(const std::string& name, Expression::Weights weights) {
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
  return stored(name, {shape_in(shape), init});
}

Value buffer_of(nb::handle shape, const std::string& name, double value) {
  check(!name.empty(), "a buffer has no name: expected name=\"...\", by which weights know it");
  return stored(name, {shape_in(shape), Init::constant(value), true});
}

Value constant_in(nb::handle given, const std::string& name) {
  const Array array = as_array(given, "a constant");
  const bool is_whole = is_integers(array);
  const nb::object wide = nb::module_::import_("numpy").attr("ascontiguousarray")(given, "float64");
  const Array numbers = as_array(wide, "a constant");
  const auto* first = static_cast<const double*>(numbers.data());
  return constant_of({std::vector<double>(first, first + numbers.size()),
                      shape_of(array, "a constant", 0), is_whole ? DType::i32 : DType::f32},
                     name);
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
  nb::class_<Extent>(m, "Samples",
                     "A size of a value: so many elements for each sample, N, 2 N and so on.")
      .def_prop_ro("_times", [](const Extent& a) { return a.number; })
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

void add_expressions(nb::module_& m) {
  add_extents(m);
  nb::class_<Value> value(
      m, "Value",
      "A value of a network that is being described.\n\n"
      "Such are the results of accrue.input(), and of layers and functions that are called on "
      "values.\nIt has sizes and no elements.\n");
  value
      .def_prop_ro("shape", &shape_tuple,
                   "Its sizes: numbers, or multiples of the number of samples, N.",
                   nb::for_getter(nb::sig("def shape(self) -> tuple[int | Samples, ...]")))
      .def_prop_ro("_is_truth", &has_truth_values)
      .def_prop_ro("_is_whole", [](const Value& v) { return v.sizes().dtype == DType::i32; })
      .def("__repr__", [](const Value& v) { return "value " + to_string(v.sizes()); });
  const ArgumentDoc shape{"shape", "int or sequence of int", "The sizes."};
  const char* const fails = "For sizes or names that are none.";
  const Docstring of_input{
      .summary = "Makes an input of a network.",
      .parameters = {{"*shape", "int or sequence of int", "The sizes of a sample."},
                     {"dtype", "{'float32', 'int32'}", "Numbers, or whole numbers such as tokens."},
                     {"name", "str", "The name of its array in data."}},
      .returned = "Value",
      .returns = "Samples [N, ...] of this shape.",
      .raises = fails,
      .examples = ">>> accrue.input(3, 32, 32)\nvalue [N, 3, 32, 32]"};
  m.def("input", &input_of, "shape"_a, nb::kw_only(), "dtype"_a = "float32", "name"_a = "x",
        lasting(of_input.text()),
        nb::sig("def input(*shape: int | typing.Sequence[int], dtype: "
                "typing.Literal['float32', 'int32'] = 'float32', name: str = 'x') -> Value"));
  const Docstring of_parameter{
      .summary = "Makes a learned tensor of a network.",
      .more =
          "It begins with the number `mean`, or with numbers drawn from N(mean, std^2), or evenly "
          "from -bound to bound.",
      .parameters = {shape,
                     {"name", "str", "Its name in weights."},
                     {"mean", "float", "The number, or the mean."},
                     {"std", "float, optional", "The standard deviation."},
                     {"bound", "float, optional", "The largest number that is drawn."}},
      .returned = "Value",
      .returns = "The tensor, float32 or as precision says.",
      .raises = fails,
      .examples = ">>> accrue.parameter((4, 3), \"scale\", mean=1.0)\nvalue [4, 3]"};
  m.def("parameter", &parameter_of, "shape"_a, "name"_a, nb::kw_only(), "mean"_a = 0.0,
        "std"_a = nb::none(), "bound"_a = nb::none(), lasting(of_parameter.text()),
        nb::sig("def parameter(shape: int | typing.Sequence[int], name: str, *, mean: float = 0.0, "
                "std: float | None = None, bound: float | None = None) -> Value"));
  const Docstring of_buffer{
      .summary = "Makes numbers of a network that are not learned, but in files of weights.",
      .more = "batch_norm's running_mean is an example.",
      .parameters = {shape,
                     {"name", "str", "Their name in weights."},
                     {"value", "float", "With what they begin."}},
      .returned = "Value",
      .returns = "The tensor, float32 or as precision says.",
      .raises = fails,
      .examples = ">>> accrue.buffer(3, \"running_mean\")\nvalue [3]"};
  m.def("buffer", &buffer_of, "shape"_a, "name"_a, nb::kw_only(), "value"_a = 0.0,
        lasting(of_buffer.text()),
        nb::sig("def buffer(shape: int | typing.Sequence[int], name: str, *, value: float = 0.0) "
                "-> Value"));
  const Docstring of_scope{
      .summary = "A part of a network, whose name begins the names of its parameters.",
      .more =
          "Parameters and layers that are made in its `with` block have its name before theirs, "
          "and a dot.",
      .parameters = {{"name", "str", "By default the part's number in the network."}},
      .examples =
          ">>> with accrue.scope(\"head\"):\n"
          "...     weight = accrue.parameter((4, 3), \"weight\")  # head.weight"};
  nb::class_<ScopeOfPython>(m, "scope", lasting(of_scope.text()))
      .def(nb::init<std::string>(), "name"_a = "")
      .def_prop_ro(
          "name", [](const ScopeOfPython& scope) { return scope.name; }, "The part's name.")
      .def("__enter__", &ScopeOfPython::enter)
      .def("__exit__", [](ScopeOfPython& scope, const nb::args&) { scope.exit(); });
  const Docstring of_constant{
      .summary = "Makes numbers of a network that are not learned, and in no file of weights.",
      .parameters = {{"array", "array_like", "The numbers; whole ones become int32."},
                     {"name", "str", "For messages."}},
      .returned = "Value",
      .returns = "The tensor, of the array's sizes.",
      .raises = "For what is no array of numbers.",
      .examples = ">>> accrue.constant(np.eye(3, dtype=np.float32))\nvalue [3, 3]"};
  m.def("constant", &constant_in, "array"_a, "name"_a = "", lasting(of_constant.text()),
        nb::sig("def constant(array: typing.Any, name: str = '') -> Value"));
  add_functions(m, value);

  const Docstring of_call{
      .summary = "Calls the layer on a value.",
      .more = "A layer that is called again has the same weights.",
      .parameters =
          {{"x", "Value", "The layer's input."},
           {"name", "str",
            "The beginning of its parameters' names; by default its number in the network."}},
      .returned = "Value",
      .returns = "The layer's output.",
      .raises = "For sizes that the layer does not take."};
  nb::object layer = m.attr("Layer");
  nb::setattr(
      layer, "__call__",
      nb::cpp_function([](const Layer& self, const Value& x,
                          const std::string& name) { return call_layer(self, x, name); },
                       nb::is_method(), nb::scope(layer), nb::name("__call__"), "x"_a,
                       nb::kw_only(), "name"_a = "", lasting(of_call.text()),
                       nb::sig("def __call__(self, x: Value, *, name: str = '') -> Value")));
}

}  // namespace accrue::python
