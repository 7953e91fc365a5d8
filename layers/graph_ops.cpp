#include "layers/graph_ops.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/inside.h"

namespace accrue {

Extent Extent::of_samples(int64_t each) {
  Extent extent(each);
  extent.per_sample = true;
  return extent;
}

namespace {

std::string text_of(const Extent& extent) {
  if (!extent.per_sample) return fmt::format("{}", extent.number);
  return extent.number == 1 ? "N" : fmt::format("{} N", extent.number);
}

// "(2,)", "(2, 3)"
std::string tuple_of(const std::vector<std::string>& parts) {
  return fmt::format("({}{})", fmt::join(parts, ", "), parts.size() == 1 ? "," : "");
}

template <class Part>
std::string tuple_of(const std::vector<Part>& parts) {
  std::vector<std::string> texts;
  for (const Part& part : parts) texts.push_back(text_of(part));
  return tuple_of(texts);
}

}  // namespace

std::string detail::to_string(const OpValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const {
      const std::string text = fmt::format("{}", number);
      return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& text) const { return fmt::format("'{}'", text); }
    std::string operator()(const Integers& numbers) const { return tuple_of(numbers); }
    std::string operator()(const Extents& sizes) const { return tuple_of(sizes); }
  };
  return std::visit(Text{}, value);
}

// Signatures

namespace {

using Argument = GraphOp::Argument;
using Type = Argument::Type;

constexpr std::pair<std::string_view, Type> types[]{
    {"tensor", Type::tensor}, {"weight", Type::weight}, {"tensors", Type::tensors},
    {"bool", Type::flag},     {"int", Type::integer},   {"float", Type::number},
    {"str", Type::text},      {"ints", Type::integers}, {"sizes", Type::sizes},
};

std::string_view name_of(Type type) {
  return std::ranges::find(types, type, &std::pair<std::string_view, Type>::second)->first;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// "(1, 1)" has one comma that separates nothing.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const auto part = trimmed(text.substr(begin, i - begin)); !part.empty())
      parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

OpValue default_of(std::string_view text, Type type) {
  if (text == "None") return {};
  switch (type) {
    case Type::flag: return text == "True";
    case Type::number: return std::stod(std::string(text));
    case Type::text: return std::string(text.substr(1, text.size() - 2));
    case Type::integers:
      if (text.front() == '(') {
        Integers all;
        for (const auto part : parts_of(text.substr(1, text.size() - 2)))
          all.push_back(std::stoll(std::string(part)));
        return all;
      }
      return Integers{std::stoll(std::string(text))};
    default: return int64_t{std::stoll(std::string(text))};
  }
}

// "dim: int = -1"
Argument argument_of(std::string_view text) {
  Argument argument;
  if (const size_t equals = text.find('='); equals != text.npos) {
    argument.is_required = false;
    const std::string_view value = trimmed(text.substr(equals + 1));
    text = trimmed(text.substr(0, equals));
    if (const size_t colon = text.find(':'); colon != text.npos)
      argument.type = std::ranges::find(types, trimmed(text.substr(colon + 1)), [](auto& t) {
                        return t.first;
                      })->second;
    argument.by_default = default_of(value, argument.type);
  } else if (const size_t colon = text.find(':'); colon != text.npos) {
    argument.type = std::ranges::find(types, trimmed(text.substr(colon + 1)), [](auto& t) {
                      return t.first;
                    })->second;
  }
  argument.name = trimmed(text.substr(0, text.find(':')));
  return argument;
}

// The value as one of the type; nothing if it is none.
std::optional<OpValue> value_as(const OpValue& value, const Argument& argument) {
  if (std::holds_alternative<std::monostate>(value)) {
    if (argument.is_required || !std::holds_alternative<std::monostate>(argument.by_default))
      return std::nullopt;
    return value;
  }
  const auto* number = std::get_if<int64_t>(&value);
  const auto* numbers = std::get_if<Integers>(&value);
  switch (argument.type) {
    case Type::flag:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case Type::integer:
      if (number) return value;
      break;
    case Type::number:
      if (number) return double(*number);
      if (std::holds_alternative<double>(value)) return value;
      break;
    case Type::text:
      if (std::holds_alternative<std::string>(value)) return value;
      break;
    case Type::integers:
      if (number) return Integers{*number};
      if (numbers) return value;
      break;
    case Type::sizes:
      if (number) return Extents{*number};
      if (numbers) return Extents(numbers->begin(), numbers->end());
      if (std::holds_alternative<Extents>(value)) return value;
      break;
    default: break;
  }
  return std::nullopt;
}

}  // namespace

GraphOp detail::row_of(std::string_view signature, GraphOp::Run run) {
  GraphOp op;
  const size_t open = signature.find('('), close = signature.rfind(')');
  op.name = signature.substr(0, open);
  op.signature = signature.substr(open, close + 1 - open);
  for (const auto part : parts_of(signature.substr(open + 1, close - open - 1)))
    op.arguments.push_back(argument_of(part));
  const std::string_view marks = signature.substr(close + 1);
  op.is_differentiable = marks.find("constant") == marks.npos;
  op.has_several_results = marks.find("several") != marks.npos;
  op.is_random = marks.find("random") != marks.npos;
  op.can_activate = marks.find("activated") != marks.npos;
  op.run = std::move(run);
  return op;
}

std::vector<const Argument*> GraphOp::operands() const {
  std::vector<const Argument*> found;
  for (const Argument& each : arguments)
    if (each.is_operand()) found.push_back(&each);
  return found;
}

std::vector<const Argument*> GraphOp::attributes() const {
  std::vector<const Argument*> found;
  for (const Argument& each : arguments)
    if (!each.is_operand()) found.push_back(&each);
  return found;
}

std::vector<OpValue> GraphOp::arguments_of(
    const std::vector<std::pair<std::string, OpValue>>& given) const {
  const auto known = attributes();
  std::vector<OpValue> values;
  std::vector<std::string> names;
  for (const Argument* each : known) {
    names.push_back(each->name);
    values.push_back(each->by_default);
    const auto found = std::ranges::find(given, each->name, [](auto& g) { return g.first; });
    check(found != given.end() || !each->is_required, "[{}] has no {}: expected {}{}", name,
          each->name, name, signature);
    if (found == given.end()) continue;
    const auto value = value_as(found->second, *each);
    check(value.has_value(), "[{}] {} is {}: expected {}", name, each->name,
          to_string(found->second), name_of(each->type));
    values.back() = *value;
  }
  for (const auto& [attribute, value] : given)
    check(std::ranges::find(names, attribute) != names.end(),
          "[{}] has no attribute {}: expected {}{}", name, attribute, name, signature);
  return values;
}

void GraphOp::check_operands(const std::vector<bool>& defined) const {
  const auto known = operands();
  const bool takes_all = !known.empty() && known.back()->type == Type::tensors;
  check(takes_all ? !defined.empty() : defined.size() <= known.size(), "[{}] got {}: expected {}{}",
        name, counted(std::ssize(defined), "operand"), name, signature);
  for (size_t i = 0; i < std::max(known.size(), defined.size()); ++i) {
    const Argument& argument = *known[std::min(i, known.size() - 1)];
    check((i < defined.size() && defined[i]) || !argument.is_required,
          "[{}] has no {}: expected {}{}", name, argument.name, name, signature);
  }
}

namespace {

const std::map<std::string, const GraphOp*, std::less<>>& by_name() {
  static const auto all = [] {
    std::map<std::string, const GraphOp*, std::less<>> ops;
    for (const GraphOp& op : graph_ops())
      check(ops.emplace(op.name, &op).second, "two ops of graphs are called {}", op.name);
    return ops;
  }();
  return all;
}

}  // namespace

bool detail::has_graph_op(std::string_view name) { return by_name().contains(name); }

const GraphOp& detail::graph_op(std::string_view name) {
  const auto found = by_name().find(name);
  if (found != by_name().end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [each, op] : by_name()) names.push_back(each);
  fail("there is no op {}: expected one of {}", name, fmt::join(names, ", "));
}

// Calls

thread_local constinit OpTrace* OpTrace::of_this_thread = nullptr;

const OpValue& OpCall::attribute(std::string_view name) const {
  size_t i = 0;
  for (const Argument& each : op_.arguments) {
    if (each.is_operand()) continue;
    if (each.name == name) return attributes_.at(i);
    ++i;
  }
  fail("[{}] reads an attribute {} that is not in its signature {}", op_.name, name, op_.signature);
}

bool OpCall::has(std::string_view name) const {
  return !std::holds_alternative<std::monostate>(attribute(name));
}

bool OpCall::flag(std::string_view name) const { return std::get<bool>(attribute(name)); }
int64_t OpCall::integer(std::string_view name) const { return std::get<int64_t>(attribute(name)); }
double OpCall::number(std::string_view name) const { return std::get<double>(attribute(name)); }

const std::string& OpCall::text(std::string_view name) const {
  return std::get<std::string>(attribute(name));
}

const Integers& OpCall::integers(std::string_view name) const {
  return std::get<Integers>(attribute(name));
}

const Extents& OpCall::sizes(std::string_view name) const {
  return std::get<Extents>(attribute(name));
}

int OpCall::dimension(std::string_view name, size_t i) const {
  const int64_t given = integer(name), rank = operands_.at(i).shape().rank();
  check(-rank <= given && given < rank, "[{}] {} is {} for {}: expected {} to {}", op_.name, name,
        given, operands_[i].shape(), -rank, rank - 1);
  return static_cast<int>(given < 0 ? given + rank : given);
}

PerAxis OpCall::axes(std::string_view name) const {
  const Integers& all = integers(name);
  check(all.size() == 1 || all.size() == 2, "[{}] {} has {} numbers: expected one or two",
        op_name(), name, all.size());
  return {all.front(), all.back()};
}

Shape OpCall::shape(std::string_view name, int64_t elements) const {
  std::vector<int64_t> sizes;
  int64_t known = 1;
  std::optional<size_t> left;
  for (const Extent& extent : this->sizes(name)) {
    const int64_t size = extent.of(where.samples);
    check(size >= 0 || (size == -1 && !left),
          "[{}] {} is {}: expected sizes, one of them -1 or none", op_.name, name,
          to_string(attribute(name)));
    if (size < 0) left = sizes.size();
    else known *= size;
    sizes.push_back(size);
  }
  if (left) sizes[*left] = known > 0 && elements % known == 0 ? elements / known : 0;
  check(!left || known * sizes[*left] == elements, "[{}] {} elements do not fit {} {}", op_.name,
        elements, name, to_string(attribute(name)));
  return Shape(sizes);
}

}  // namespace accrue
