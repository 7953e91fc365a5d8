#include "layers/graph.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"
#include "layers/graph_parts.h"

namespace accrue {

Graph::Graph() = default;
Graph::~Graph() = default;

// Values and calls

Graph::Value Graph::add_value(Known value) {
  values_.push_back(std::move(value));
  return {values_.size() - 1};
}

Graph::Value Graph::hold(std::unique_ptr<Held> held) {
  held_.push_back(std::move(held));
  return add_value({.name = held_.back()->name(), .held = held_.back().get()});
}

Graph::Value Graph::input(std::string name) {
  const Value value = add_value({.name = std::move(name)});
  inputs_.push_back(value.number);
  return value;
}

Graph::Value Graph::parameter(std::string name, const Shape& shape, Init init) {
  return hold(std::make_unique<Held>(std::move(name), Parameter{shape, init, {}}));
}

Graph::Value Graph::buffer(std::string name, const Shape& shape, Init init) {
  return hold(std::make_unique<Held>(std::move(name), Buffer{shape, init, {}}));
}

Graph::Value Graph::constant(std::string name, std::vector<double> values, const Shape& shape,
                             DType dtype) {
  check(std::ssize(values) == shape.numel(), "[graph] the constant {} has {} numbers: expected {}",
        name, values.size(), shape);
  check(is_floating(dtype) || dtype == DType::i32,
        "[graph] the constant {} is {}: expected a floating type or i32", name,
        accrue::detail::name(dtype));
  // Not a tensor: what a network is made of takes no memory of the run's.
  const auto kept = std::make_shared<const std::vector<double>>(std::move(values));
  Parameter parameter{shape, {}, {}};
  parameter.source = [kept, shape, dtype](DType compute, Device device) {
    const DType type = dtype == DType::i32 ? dtype : compute;
    const Tensor made =
        Tensor::empty(shape, type, is_meta(device) ? device : Device::cpu, Category::parameters);
    if (is_meta(device)) return made;
    if (type == DType::i32)
      std::ranges::transform(*kept, made.span<int32_t>().begin(),
                             [](double value) { return static_cast<int32_t>(value); });
    else
      dispatch_floating(type, [&]<class T>() {
        std::ranges::transform(*kept, made.span<T>().begin(),
                               [](double value) { return T(static_cast<Wide<T>>(value)); });
      });
    return device == Device::cpu ? made : made.to(device, Category::parameters);
  };
  return hold(std::make_unique<Held>(std::move(name), std::move(parameter)));
}

void Graph::declare_held(size_t value) {
  Held* const held = values_[value].held;
  if (!held || std::exchange(held->is_declared, true)) return;
  declare("", *held);
}

const std::vector<size_t>& Graph::add_call(Call call, const std::vector<Value>& operands,
                                           size_t results) {
  for (const Value operand : operands) {
    call.operands.push_back(operand.number);
    if (!operand.defined()) continue;
    check(operand.number < values_.size(), "[graph] {} is called with a value of another graph",
          call.name);
    declare_held(operand.number);
    const Held* const held = values_[operand.number].held;
    call.has_weights |= held && held->is_weight();
  }
  for (size_t i = 0; i < results; ++i)
    call.results.push_back(
        add_value({.name = fmt::format("%{}", ++results_), .call = calls_.size()}).number);
  if (call.name.empty()) call.name = values_[call.results.front()].name;
  if (call.op) declare(call.name, *call.op);
  calls_.push_back(std::move(call));
  return calls_.back().results;
}

std::vector<Graph::Value> Graph::call(std::string_view name, const std::vector<Value>& operands,
                                      size_t results, const Attributes& attributes,
                                      std::string scope) {
  const GraphOp& op = graph_op(name);
  check(results > 0 && (results == 1 || op.has_several_results), "[{}] has one result, expected {}",
        name, results);
  std::vector<bool> defined;
  for (const Value operand : operands) defined.push_back(operand.defined());
  op.check_operands(defined);
  nodes_.push_back(std::make_unique<Node>(op, op.arguments_of(attributes)));
  std::vector<Value> values;
  for (const size_t result :
       add_call({.op = nodes_.back().get(), .name = std::move(scope)}, operands, results))
    values.push_back({result});
  return values;
}

Graph::Value Graph::call(std::string_view op, const std::vector<Value>& operands,
                         const Attributes& attributes, std::string scope) {
  return call(op, operands, 1, attributes, std::move(scope)).front();
}

const Layer& Graph::add(std::unique_ptr<Layer> layer, std::string name) {
  check(layer != nullptr, "[graph] null is added: expected a layer");
  Added added;
  added.name = std::move(name);
  layer->visit_parameters(
      [&](const std::string&, Parameter& p) { added.parameters.push_back(&p); });
  added.layer = std::move(layer);
  layers_.push_back(std::move(added));
  return *layers_.back().layer;
}

Graph::Value Graph::call(const Layer& layer, Value x) {
  const auto added = std::ranges::find(layers_, &layer, [](auto& a) { return a.layer.get(); });
  check(added != layers_.end(), "[graph] a layer is called that is not this graph's: add() it");
  check(x.defined(), "[graph] a layer is called on no value");
  if (!std::exchange(added->is_declared, true)) {
    const int number = std::exchange(next_number_, next_number_ + layer.places());
    if (added->name.empty()) added->name = fmt::format("{}", number);
    declare(added->name, *added->layer);
  }
  Call call{.layer = &layer, .name = added->name};
  call.has_weights = std::ranges::any_of(added->parameters,
                                         [](const Parameter* p) { return p->shape.rank() > 1; });
  return {add_call(std::move(call), {x}, 1).front()};
}

Graph::Value Graph::call(std::unique_ptr<Layer> layer, Value x, std::string name) {
  return call(add(std::move(layer), std::move(name)), x);
}

void Graph::output(Value value, std::string name) {
  check(value.defined() && value.number < values_.size(),
        "[graph] an output is no value of this graph");
  check(name.empty() || std::ranges::find(output_names_, name) == output_names_.end(),
        "[graph] two outputs are called '{}': expected a name for each", name);
  declare_held(value.number);
  outputs_.push_back(value.number);
  output_names_.push_back(std::move(name));
  plain_ = schedule_of(live_calls(outputs_), outputs_);
  cutting_.reset();
}

std::vector<std::string> Graph::input_names() const {
  std::vector<std::string> names;
  for (const size_t input : inputs_) names.push_back(values_[input].name);
  return names;
}

std::vector<std::string> Graph::output_names() const {
  std::vector<std::string> names = output_names_;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = names.size() == 1 ? "y" : fmt::format("y{}", i);
  return names;
}

void Graph::weigh(Value result, double weight) {
  const auto& call = values_.at(result.number).call;
  check(call.has_value(), "[graph] {} is no result of a call", values_[result.number].name);
  calls_[*call].weight = weight;
  cutting_.reset();
}

// Text

std::string Graph::text_of(const Call& call) const {
  const auto name = [&](size_t value) {
    return value == Value::none ? "None" : values_[value].name;
  };
  std::vector<std::string> results, arguments;
  for (const size_t result : call.results) results.push_back(name(result));
  for (const size_t operand : call.operands) arguments.push_back(name(operand));
  const std::string left = fmt::format("{}", fmt::join(results, ", "));
  if (call.layer) {
    std::string layer = call.layer->describe();
    if (layer.ends_with('\n')) layer.pop_back();
    std::ranges::replace(layer, '\n', ';');
    return fmt::format("{} = {}({}): {}", left, call.name, fmt::join(arguments, ", "), layer);
  }
  for (const std::string& each : call.op->written()) arguments.push_back(each);
  const bool is_named = call.name != results.front();
  return fmt::format("{} = {}({}){}", left, call.op->op.name, fmt::join(arguments, ", "),
                     is_named ? "  # " + call.name : "");
}

std::string Graph::describe() const {
  std::string text;
  for (const size_t input : inputs_) text += fmt::format("{}: input\n", values_[input].name);
  for (const auto& held : held_)
    if (held->is_declared)
      text += fmt::format("{}: {}{}\n", held->name(),
                          held->is_trainable()   ? "parameter "
                          : held->is_parameter() ? "constant "
                                                 : "buffer ",
                          held->shape());
  for (const Call& call : calls_) text += text_of(call) + "\n";
  std::vector<std::string> outputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string& name = output_names_[i];
    outputs.push_back((name.empty() ? "" : name + "=") + values_[outputs_[i]].name);
  }
  return text + fmt::format("return {}\n", fmt::join(outputs, ", "));
}

}  // namespace accrue
