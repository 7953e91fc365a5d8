#include "python/functions.h"

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "layers/layers.h"
#include "python/docstrings.h"
#include "python/op_docs.h"
#include "python/values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {
namespace {

using Argument = GraphOp::Argument;
using Type = Argument::Type;

// "typing.Sequence[int]" as Python's help shows it.
std::string type_of_argument(const Argument& argument) {
  std::string type;
  switch (argument.type) {
    case Type::tensor: type = "Value | float"; break;
    case Type::weight: type = "Value"; break;
    case Type::tensors: type = "typing.Sequence[Value]"; break;
    case Type::flag: type = "bool"; break;
    case Type::integer: type = "int"; break;
    case Type::number: type = "float"; break;
    case Type::text: type = "str"; break;
    case Type::integers: type = "int | typing.Sequence[int]"; break;
    case Type::sizes: type = "typing.Sequence[int | Samples]"; break;
  }
  const bool may_be_none =
      !argument.is_required && std::holds_alternative<std::monostate>(argument.by_default);
  return may_be_none ? type + " | None" : type;
}

// x.reshape(2, 3): the sizes are the only argument of the method.
bool takes_rest(const GraphOp& op, const Argument& argument, bool is_method) {
  return is_method && op.arguments.size() == 2 && &argument == &op.arguments[1] &&
         argument.is_required && (argument.type == Type::integers || argument.type == Type::sizes);
}

std::string signature_of(const GraphOp& op, bool is_method) {
  std::vector<std::string> arguments;
  for (const Argument& argument : op.arguments) {
    if (is_method && arguments.empty()) {
      arguments.emplace_back("self");
      continue;
    }
    const bool is_rest = takes_rest(op, argument, is_method);
    std::string type = type_of_argument(argument);
    if (is_rest && argument.type == Type::sizes)
      type = "int | Samples | typing.Sequence[int | Samples]";
    std::string text = (is_rest ? "*" : "") + argument.name + ": " + type;
    if (!argument.is_required) {
      const auto* numbers = std::get_if<Integers>(&argument.by_default);
      const bool is_one = numbers && numbers->size() == 1;
      text += " = " + to_string(is_one ? OpValue(numbers->front()) : argument.by_default);
    }
    arguments.push_back(std::move(text));
  }
  return fmt::format("def {}({}) -> {}", op.name, fmt::join(arguments, ", "),
                     op.has_several_results ? "tuple[Value, ...]" : "Value");
}

const char* doc_of(const GraphOp& op, bool is_method) {
  const auto found = std::ranges::find(op_docs(), op.name, &OpDoc::name);
  if (found == op_docs().end()) return "";
  Docstring doc{.summary = found->summary,
                .returned = op.has_several_results ? "tuple of Value" : "Value",
                .returns = "The result y, whose sizes follow from the formula.",
                .raises = "For operands and arguments that do not fit. It names the call.",
                .notes = found->text,
                .examples = is_method ? "" : found->example};
  for (const Argument& argument : op.arguments) {
    if (is_method && &argument == &op.arguments.front()) continue;  // self
    const auto about = std::ranges::find(found->arguments, std::string_view(argument.name),
                                         [](const auto& each) { return each.first; });
    doc.parameters.push_back({(takes_rest(op, argument, is_method) ? "*" : "") + argument.name,
                              shown_type(type_of_argument(argument)),
                              about != found->arguments.end() ? about->second : ""});
  }
  return lasting(doc.text());
}

bool is_number(nb::handle given) {
  return nb::isinstance<nb::float_>(given) || nb::isinstance<nb::int_>(given);
}

// A value, or a number as one of a single element.
Value operand_of(const GraphOp& op, const Argument& argument, nb::handle given) {
  if (given.is_none()) return {};
  Value* value = nullptr;
  if (nb::try_cast(given, value, false) && value) return *value;
  check(is_number(given) && argument.type == Type::tensor,
        "[{}] {} is {}: expected a value of a network", op.name, argument.name, shown(given));
  return constant_of({{nb::cast<double>(given)}, {1}, DType::f32});
}

bool is_list(nb::handle given) {
  return nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
}

OpValue attribute_of(const GraphOp& op, const Argument& argument, nb::handle given) {
  if (given.is_none()) return {};
  if (nb::isinstance<nb::bool_>(given)) return nb::cast<bool>(given);
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  if (nb::isinstance<nb::float_>(given)) return nb::cast<double>(given);
  int64_t number = 0;
  if (nb::try_cast(given, number)) return number;
  Extent* samples = nullptr;
  if (nb::try_cast(given, samples, false) && samples) return Extents{*samples};
  check(is_list(given), "[{}] {} is {}: expected {}", op.name, argument.name, shown(given),
        type_of_argument(argument));
  Extents all;
  bool has_samples = false;
  for (const nb::handle each : given) {
    if (nb::try_cast(each, samples, false) && samples) {
      all.push_back(*samples);
      has_samples = true;
      continue;
    }
    check(nb::try_cast(each, number), "[{}] {} has {}: expected whole numbers", op.name,
          argument.name, shown(each));
    all.emplace_back(number);
  }
  if (argument.type == Type::sizes || has_samples) return all;
  Integers integers;
  for (const Extent& each : all) integers.push_back(each.number);
  return integers;
}

// The arguments of a call in the order of the signature. reshape(x, 2, 3) is reshape(x, (2, 3)).
std::vector<nb::object> bound(const GraphOp& op, const nb::args& args, const nb::kwargs& options) {
  std::vector<nb::object> given;
  for (const nb::handle each : args) given.push_back(nb::borrow(each));
  const size_t n = op.arguments.size();
  if (given.size() > n || (given.size() == n && n > 1 && !given.empty())) {
    const auto first = std::ranges::find_if(op.arguments, [](const Argument& a) {
      return a.type == Type::integers || a.type == Type::sizes;
    });
    const size_t at = size_t(first - op.arguments.begin());
    if (first != op.arguments.end() && at < given.size() && !is_list(given[at]) &&
        given.size() > n) {
      nb::list rest;
      for (size_t i = at; i < given.size(); ++i) rest.append(given[i]);
      given.resize(at);
      given.push_back(nb::tuple(rest));
    }
  }
  check(given.size() <= n, "[{}] got {}: expected {}{}", op.name,
        counted(std::ssize(given), "argument"), op.name, op.signature);
  given.resize(n);
  for (const auto& [key, value] : options) {
    const std::string name = nb::cast<std::string>(key);
    const auto found = std::ranges::find(op.arguments, name, &Argument::name);
    check(found != op.arguments.end(), "[{}] has no argument {}: expected {}{}", op.name, name,
          op.name, op.signature);
    nb::object& place = given[size_t(found - op.arguments.begin())];
    check(!place.is_valid(), "[{}] {} is given twice: expected it once", op.name, name);
    place = nb::borrow(value);
  }
  return given;
}

nb::object result_of(const GraphOp& op, std::vector<Value> values) {
  if (!op.has_several_results) return nb::cast(std::move(values.front()));
  nb::list all;
  for (Value& value : values) all.append(nb::cast(std::move(value)));
  return nb::tuple(all);
}

// Elements become 0 by the key of a layer of its own.
std::vector<Value> call_dropout(const Value& x, double p) {
  check(p >= 0 && p < 1, "[dropout] p is {}: expected a number from 0 to less than 1", p);
  const Layer layer{[p](uint32_t& dropouts) { return std::make_unique<Dropout>(p, dropouts++); }};
  return {call_layer(layer, x, "")};
}

// The op of a value and a number, for which there is one: x * 2 is scale(x, factor=2).
struct ScalarOp {
  std::string_view op;
  bool is_reflected;
  const char *name, *attribute;
  double sign = 1;
};

constexpr ScalarOp scalar_ops[]{
    {"mul", false, "scale", "factor"},          {"mul", true, "scale", "factor"},
    {"add", false, "add_scalar", "addend"},     {"add", true, "add_scalar", "addend"},
    {"sub", false, "add_scalar", "addend", -1}, {"sub", true, "rsub", "minuend"},
    {"div", false, "div_scalar", "divisor"},    {"div", true, "rdiv", "dividend"},
    {"pow", false, "pow_scalar", "exponent"},
};

std::optional<Value> with_scalar(std::string_view op, const Value& x, nb::handle other,
                                 bool is_reflected) {
  if (!is_number(other)) return std::nullopt;
  for (const ScalarOp& each : scalar_ops)
    if (each.op == op && each.is_reflected == is_reflected && has_graph_op(each.name))
      return call_op(graph_op(each.name), {x},
                     {{each.attribute, each.sign * nb::cast<double>(other)}})
          .front();
  return std::nullopt;
}

nb::object call_function(const GraphOp& op, const nb::args& args, const nb::kwargs& options) {
  const std::vector<nb::object> given = bound(op, args, options);
  std::vector<Value> operands;
  Graph::Attributes attributes;
  for (size_t i = 0; i < given.size(); ++i) {
    const Argument& argument = op.arguments[i];
    if (!argument.is_operand()) {
      if (given[i].is_valid())
        attributes.emplace_back(argument.name, attribute_of(op, argument, given[i]));
    } else if (!given[i].is_valid()) {
      operands.emplace_back();
    } else if (argument.type == Type::tensors) {
      check(is_list(given[i]), "[{}] {} is {}: expected a list of values", op.name, argument.name,
            shown(given[i]));
      for (const nb::handle each : given[i]) operands.push_back(operand_of(op, argument, each));
    } else {
      operands.push_back(operand_of(op, argument, given[i]));
    }
  }
  if (given.size() == 2 && given[1].is_valid() && attributes.empty() && operands.front().of)
    if (auto value = with_scalar(op.name, operands.front(), given[1], false))
      return nb::cast(std::move(*value));
  while (!operands.empty() && !operands.back().of) operands.pop_back();
  if (op.name == "dropout" && !operands.empty())
    return nb::cast(
        call_dropout(operands.front(), std::get<double>(op.arguments_of(attributes).front()))
            .front());
  return result_of(op, call_op(op, std::move(operands), std::move(attributes)));
}

nb::object operate(std::string_view op, const Value& x, nb::handle other, bool is_reflected) {
  if (auto value = with_scalar(op, x, other, is_reflected)) return nb::cast(std::move(*value));
  Value* value = nullptr;
  const bool is_value = nb::try_cast(other, value, false) && value;
  if (!is_value && !is_number(other)) return nb::borrow(nb::handle(Py_NotImplemented));
  const GraphOp& called = graph_op(op);
  const Value y = operand_of(called, *called.operands().back(), other);
  return nb::cast(
      call_op(called, is_reflected ? std::vector{y, x} : std::vector{x, y}, {}).front());
}

void add_operators(nb::class_<Value>& value) {
  for (const auto& [symbol, op] : {std::pair{"add", "add"},
                                   {"sub", "sub"},
                                   {"mul", "mul"},
                                   {"truediv", "div"},
                                   {"matmul", "matmul"},
                                   {"pow", "pow"}})
    for (const bool is_reflected : {false, true}) {
      const char* name = lasting(fmt::format("__{}{}__", is_reflected ? "r" : "", symbol));
      nb::setattr(
          value, name,
          nb::cpp_function(
              [op = op, is_reflected](const Value& x, nb::handle other) {
                return operate(op, x, other, is_reflected);
              },
              nb::is_method(), nb::is_operator(), nb::scope(value), nb::name(name),
              nb::sig(lasting(fmt::format("def {}(self, other: Value | float) -> Value", name))),
              lasting(fmt::format("{}() of self and other{}", op,
                                  is_reflected ? ", other first" : ""))));
    }
  value.def(
      "__neg__",
      [](const Value& x) {
        return call_op(graph_op("scale"), {x}, {{"factor", -1.0}}).front();
      },
      "scale() by -1");
}

// x[1:, ::2], x[:, 0], x[..., None]
Value item_of(Value x, nb::handle key) {
  const nb::tuple keys =
      nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(nb::borrow(key));
  const auto call = [](const char* op, const Value& of, Graph::Attributes attributes) {
    return call_op(graph_op(op), {of}, std::move(attributes)).front();
  };
  const auto is_rest = [](nb::handle each) { return each.ptr() == Py_Ellipsis; };
  int64_t dim = 0, left = std::ssize(x.sizes().shape);
  for (const nb::handle each : keys) left -= is_rest(each) || each.is_none() ? 0 : 1;
  check(left >= 0, "{} has no so many dimensions as {}", to_string(x.sizes()), shown(key));
  for (const nb::handle each : keys) {
    int64_t place = 0;
    if (is_rest(each)) {
      dim += left;
    } else if (each.is_none()) {
      x = call("unsqueeze", x, {{"dim", dim++}});
    } else if (nb::isinstance<nb::slice>(each)) {
      Graph::Attributes attributes{{"dim", dim}};
      for (const auto& [name, part] :
           {std::pair{"start", "start"}, {"end", "stop"}, {"step", "step"}})
        if (const nb::object number = each.attr(part); !number.is_none())
          attributes.emplace_back(name, nb::cast<int64_t>(number));
      if (attributes.size() > 1) x = call("slice", x, std::move(attributes));
      ++dim;
    } else {
      check(nb::try_cast(each, place), "a value has no part {}: expected numbers, slices or None",
            shown(each));
      Graph::Attributes attributes{{"dim", dim}, {"start", place}};
      if (place != -1) attributes.emplace_back("end", place + 1);
      x = call("squeeze", call("slice", x, std::move(attributes)), {{"dim", dim}});
    }
  }
  return x;
}

}  // namespace

void add_functions(nb::module_& m, nb::class_<Value>& value) {
  for (const GraphOp& op : graph_ops()) {
    const char* name = lasting(op.name);
    nb::setattr(m, name,
                nb::cpp_function(
                    [&op](const nb::args& args, const nb::kwargs& options) {
                      return call_function(op, args, options);
                    },
                    nb::scope(m), nb::name(name), nb::sig(lasting(signature_of(op, false))),
                    doc_of(op, false)));
    if (op.arguments.empty() || op.arguments.front().type != Type::tensor) continue;
    nb::setattr(value, name,
                nb::cpp_function(
                    [&op](const Value& x, const nb::args& args, const nb::kwargs& options) {
                      nb::list all;
                      all.append(nb::cast(x));
                      for (const nb::handle each : args) all.append(each);
                      return call_function(op, nb::cast<nb::args>(nb::tuple(all)), options);
                    },
                    nb::is_method(), nb::scope(value), nb::name(name),
                    nb::sig(lasting(signature_of(op, true))), doc_of(op, true)));
  }
  add_operators(value);
  value.def("__getitem__", &item_of, "key"_a,
            "A part, by numbers, slices and None as in NumPy: slice(), squeeze() and unsqueeze().",
            nb::sig("def __getitem__(self, key: typing.Any) -> Value"));
}

}  // namespace accrue::python
