#include "layers/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "kernels/computed.h"

namespace accrue {

// A parameter, buffer or constant. It is a module of the graph's, so that these are declared in the
// order of their first use, among layers.
class Graph::Held : public Module {
 public:
  Held(std::string name, Parameter parameter)
      : name_(std::move(name)), parameter_(std::move(parameter)) {
    declare(name_, parameter_);
  }
  Held(std::string name, Buffer buffer)
      : is_buffer_(true), name_(std::move(name)), buffer_(std::move(buffer)) {
    declare(name_, buffer_);
  }
  std::string describe() const override { return name_; }

  const std::string& name() const { return name_; }
  const Tensor& tensor() const { return is_parameter() ? parameter_.tensor : buffer_.tensor; }
  const Shape& shape() const { return is_buffer_ ? buffer_.shape : parameter_.shape; }
  bool is_parameter() const { return !is_buffer_; }
  const Parameter& parameter() const { return parameter_; }
  bool is_weight() const { return is_trainable() && parameter_.shape.rank() > 1; }
  bool is_trainable() const { return is_parameter() && !parameter_.source; }

  bool is_declared = false;

 private:
  bool is_buffer_ = false;
  std::string name_;
  Parameter parameter_;
  Buffer buffer_;
};

// An op of a graph with its attributes.
class Graph::Node : public Module {
 public:
  Node(const GraphOp& op, std::vector<OpValue> attributes)
      : op(op), attributes(std::move(attributes)) {}

  const GraphOp& op;
  const std::vector<OpValue> attributes;

  // "softmax dim=-1"
  std::string describe() const override {
    std::string text = op.name;
    for (const std::string& each : written()) text += " " + each;
    return text;
  }
  bool is_random() const override { return op.is_random; }

  // The attributes that are not the signature's: "dim=-1".
  std::vector<std::string> written() const {
    std::vector<std::string> texts;
    const auto known = op.attributes();
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i]->is_required || attributes[i] != known[i]->by_default)
        texts.push_back(fmt::format("{}={}", known[i]->name, to_string(attributes[i])));
    return texts;
  }

  std::vector<Tensor> operator()(std::vector<Tensor> operands, const OpCall::Where& where) const {
    std::vector<Tensor> results;
    const Shape first = operands.front().shape();
    run(first, where.pass, [&] {
      OpCall call(op, std::move(operands), attributes, where);
      results = op.run(call);
      check(!results.empty(), "[{}] has no results", op.name);
      return results.front();
    });
    return results;
  }
};

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

void Graph::output(Value value) {
  check(value.defined() && value.number < values_.size(),
        "[graph] an output is no value of this graph");
  declare_held(value.number);
  outputs_.push_back(value.number);
}

void Graph::weigh(Value result, double weight) {
  const auto& call = values_.at(result.number).call;
  check(call.has_value(), "[graph] {} is no result of a call", values_[result.number].name);
  calls_[*call].weight = weight;
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
  for (const size_t output : outputs_) outputs.push_back(values_[output].name);
  return text + fmt::format("return {}\n", fmt::join(outputs, ", "));
}

// Schedules

std::vector<size_t> Graph::live_calls() const {
  std::vector<bool> is_read(values_.size());
  for (const size_t output : outputs_) is_read[output] = true;
  std::vector<size_t> live;
  for (size_t c = calls_.size(); c-- > 0;) {
    const Call& call = calls_[c];
    if (std::ranges::none_of(call.results, [&](size_t r) { return is_read[r]; })) continue;
    live.push_back(c);
    for (const size_t operand : call.operands)
      if (operand != Value::none) is_read[operand] = true;
  }
  std::ranges::reverse(live);
  return live;
}

Graph::Schedule Graph::schedule_of(std::vector<size_t> order) const {
  std::vector<size_t> last_use(values_.size());
  for (size_t position = 0; position < order.size(); ++position) {
    const Call& call = calls_[order[position]];
    for (const auto* values : {&call.operands, &call.results})
      for (const size_t value : *values)
        if (value != Value::none) last_use[value] = position;
  }
  for (const size_t output : outputs_) last_use[output] = order.size();
  return {std::move(order), std::move(last_use)};
}

bool Graph::is_differentiable(const Call& call, const std::vector<bool>& values) const {
  if (call.op && !call.op->op.is_differentiable) return false;
  const auto is_trained = [](const Parameter* p) { return Edge(p->tensor).wants_grad(); };
  if (call.layer) {
    const auto& added =
        *std::ranges::find(layers_, call.layer, [](auto& a) { return a.layer.get(); });
    if (std::ranges::any_of(added.parameters, is_trained)) return true;
  }
  return std::ranges::any_of(call.operands,
                             [&](size_t v) { return v != Value::none && values[v]; });
}

std::vector<bool> Graph::differentiable(const Values& values) const {
  std::vector<bool> found(values_.size());
  for (const size_t input : inputs_) found[input] = Edge(values[input]).wants_grad();
  for (size_t v = 0; v < values_.size(); ++v)
    if (values_[v].held) found[v] = Edge(values_[v].held->tensor()).wants_grad();
  for (const Call& call : calls_) {
    const bool is_so = is_differentiable(call, found);
    for (const size_t result : call.results) found[result] = is_so;
  }
  return found;
}

// The positions between calls, from `first` on, that one differentiable value crosses.
std::vector<size_t> Graph::cuts(const Schedule& schedule, size_t first,
                                const std::vector<bool>& differentiable) const {
  const size_t n = schedule.order.size();
  std::vector<int> change(n + 2);
  const auto crosses = [&](size_t value, size_t from) {
    if (!differentiable[value] || schedule.last_use[value] < from) return;
    ++change[from];
    --change[schedule.last_use[value] + 1];
  };
  for (const size_t input : inputs_) crosses(input, 0);
  for (size_t position = 0; position < n; ++position)
    for (const size_t result : calls_[schedule.order[position]].results)
      crosses(result, position + 1);
  std::vector<size_t> found;
  int crossing = 0;
  for (size_t position = 0; position < n; ++position) {
    crossing += change[position];
    if (position > first && crossing == 1) found.push_back(position);
  }
  return found;
}

// Passes

// Ops that drop out are numbered from here on, so that Dropout layers, which begin at 0, have other
// masks.
constexpr uint32_t first_of_ops = 1 << 20;

// Operand `slot` of a call. Its tensor is given away if nobody reads it later.
Tensor Graph::take(const Schedule& schedule, size_t position, size_t slot, Values& values) const {
  const Call& call = calls_[schedule.order[position]];
  const size_t value = call.operands[slot];
  if (value == Value::none) return {};
  if (const Held* const held = values_[value].held) {
    check(held->tensor().defined(), "[graph] {} has no storage: call place() first", held->name());
    const auto operands =
        call.op ? call.op->op.operands() : std::vector<const GraphOp::Argument*>();
    const bool is_weight =
        !operands.empty() &&
        operands[std::min(slot, operands.size() - 1)]->type == GraphOp::Argument::Type::weight;
    return is_weight ? held->tensor() : as_computed(held->tensor());
  }
  const auto later = call.operands.begin() + std::ptrdiff_t(slot) + 1;
  const bool is_last = schedule.last_use[value] == position &&
                       std::find(later, call.operands.end(), value) == call.operands.end();
  return is_last ? std::move(values[value]) : values[value];
}

void Graph::run_calls(const Schedule& schedule, size_t begin, size_t end, Values& values,
                      const Running& running) const {
  for (size_t position = begin; position < end; ++position) {
    const Call& call = calls_[schedule.order[position]];
    std::vector<Tensor> operands, results;
    for (size_t slot = 0; slot < call.operands.size(); ++slot)
      operands.push_back(take(schedule, position, slot, values));
    if (call.layer) {
      results.push_back((*call.layer)(std::move(operands.front()), running.pass));
    } else {
      operands.resize(std::max(operands.size(), call.op->op.operands().size()));
      results = (*call.op)(std::move(operands), {.pass = running.pass,
                                                 .node = call.op,
                                                 .number = first_of_ops + uint32_t(schedule.order[position]),
                                                 .samples = running.samples,
                                                 .dtype = running.dtype,
                                                 .is_fixed = has_fixed_weights(call)});
      check(results.size() == call.results.size(), "[{}] has {} in {}, expected {}",
            call.op->op.name, counted(std::ssize(results), "result"), call.name,
            call.results.size());
    }
    for (size_t i = 0; i < results.size(); ++i)
      if (schedule.last_use[call.results[i]] > position)
        values[call.results[i]] = std::move(results[i]);
  }
}

bool Graph::has_fixed_weights(const Call& call) const {
  bool has_some = false;
  for (const size_t operand : call.operands) {
    const Held* const held = operand == Value::none ? nullptr : values_[operand].held;
    if (!held || !held->is_trainable()) continue;
    if (!held->parameter().fixed) return false;
    has_some = true;
  }
  return has_some;
}

void Graph::run_segment(const std::shared_ptr<const Schedule>& schedule, size_t begin, size_t end,
                        Values& values, const Running& running) const {
  std::vector<bool> is_made(values_.size());
  std::vector<size_t> read;
  size_t made = Value::none;
  for (size_t position = begin; position < end; ++position) {
    const Call& call = calls_[schedule->order[position]];
    for (const size_t value : call.operands)
      if (value != Value::none && !values_[value].held && !is_made[value] &&
          std::ranges::find(read, value) == read.end())
        read.push_back(value);
    for (const size_t result : call.results) {
      is_made[result] = true;
      if (schedule->last_use[result] >= end) made = result;
    }
  }
  std::vector<Tensor> inputs;
  for (const size_t value : read)
    inputs.push_back(schedule->last_use[value] < end ? std::move(values[value]) : values[value]);
  const auto segment = [this, schedule, begin, end, read, made, pass = running.pass,
                        samples = running.samples,
                        dtype = running.dtype](const std::vector<Tensor>& in) {
    Values inner(values_.size());
    for (size_t i = 0; i < read.size(); ++i) inner[read[i]] = in[i];
    run_calls(*schedule, begin, end, inner, {pass, samples, dtype});
    return std::move(inner[made]);
  };
  values[made] = recompute(segment, inputs);
}

namespace {

struct Block {
  size_t end;
  double weight;
  bool has_weights;
};

// The ends of the segments that blocks are put together into: all of them, or about sqrt(n), by
// weight.
std::vector<size_t> segments_of(const std::vector<Block>& blocks, Recompute recompute) {
  const size_t n = blocks.size();
  const size_t segments =
      recompute == Recompute::all ? n : static_cast<size_t>(std::ceil(std::sqrt(double(n))));
  std::vector<double> until{0};
  for (const Block& block : blocks) until.push_back(until.back() + block.weight);
  std::vector<size_t> ends;
  size_t taken = 0;
  for (size_t s = 1; s < segments; ++s) {
    const double goal = until.back() * double(s) / double(segments);
    size_t end = taken + 1;
    const size_t most = n - (segments - s);
    while (end < most && std::abs(until[end + 1] - goal) < std::abs(until[end] - goal)) ++end;
    ends.push_back(blocks[end - 1].end);
    taken = end;
  }
  ends.push_back(blocks.back().end);
  return ends;
}

}  // namespace

void Graph::run_in_segments(const std::vector<size_t>& calls, Values& values,
                            const Running& running) const {
  const std::vector<bool> differentiable = this->differentiable(values);
  const auto is_so = [&](size_t c) { return is_differentiable(calls_[c], differentiable); };
  std::vector<size_t> order = calls;
  const auto behind = std::ranges::stable_partition(order, [&](size_t c) { return !is_so(c); });
  const size_t first = order.size() - behind.size(), n = order.size();
  const auto schedule = std::make_shared<const Schedule>(schedule_of(std::move(order)));

  std::vector<size_t> ends = cuts(*schedule, first, differentiable);
  ends.push_back(n);
  std::vector<Block> blocks;
  size_t begin = first;
  for (const size_t end : ends) {
    Block piece{end, 0, false};
    for (; begin < end; ++begin) {
      const Call& call = calls_[schedule->order[begin]];
      piece.weight += call.weight;
      piece.has_weights |= call.has_weights;
    }
    if (blocks.empty() || (piece.has_weights && blocks.back().has_weights)) {
      blocks.push_back(piece);
    } else {
      blocks.back() = {end, blocks.back().weight + piece.weight,
                       blocks.back().has_weights || piece.has_weights};
    }
  }
  run_calls(*schedule, 0, first, values, running);
  // A block that is alone has nothing that it could be computed again from but all there is.
  if (blocks.size() == 1) return run_calls(*schedule, first, n, values, running);
  Pass inner = running.pass;
  inner.recompute = Recompute::none;
  const Running within{inner, running.samples, running.dtype};
  begin = first;
  const std::vector<size_t> segments = segments_of(blocks, running.pass.recompute);
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    run_segment(schedule, begin, segments[s], values, within);
    begin = segments[s];
  }
  // Not the last segment: its backward would begin with what has just been dropped.
  run_calls(*schedule, begin, n, values, within);
}

DType Graph::computes_in(const Values& inputs) const {
  for (const auto& held : held_)
    if (held->is_declared && held->is_parameter()) return held->parameter().compute;
  for (const Added& added : layers_)
    for (const Parameter* p : added.parameters) return p->compute;
  for (const Tensor& input : inputs)
    if (is_floating(input.dtype())) return input.dtype();
  return DType::f32;
}

std::vector<Tensor> Graph::run(std::vector<Tensor> inputs, const Pass& pass) const {
  check(inputs.size() == inputs_.size() && !inputs.empty(),
        "[graph] a network of {} runs on {}: expected a tensor for each, and at least one",
        counted(std::ssize(inputs_), "input"), counted(std::ssize(inputs), "tensor"));
  check(!outputs_.empty(), "[graph] a network without outputs runs: expected output() before");
  const Running running{pass, inputs[0].shape().rank() ? inputs[0].size(0) : 1,
                        computes_in(inputs)};
  Values values(values_.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = std::move(inputs[i]);
  std::vector<size_t> calls = live_calls();
  if (pass.recompute == Recompute::none) {
    const Schedule schedule = schedule_of(std::move(calls));
    run_calls(schedule, 0, schedule.order.size(), values, running);
  } else {
    run_in_segments(calls, values, running);
  }
  std::vector<Tensor> outputs;
  for (const size_t output : outputs_) {
    const Held* const held = values_[output].held;
    outputs.push_back(held ? as_computed(held->tensor()) : values[output]);
  }
  return outputs;
}

Tensor Graph::forward(Tensor x, const Pass& pass) const {
  check(inputs() == 1 && outputs() == 1,
        "[graph] a network of {} and {} is run as a layer: expected one of each",
        counted(std::ssize(inputs_), "input"), counted(std::ssize(outputs_), "output"));
  std::vector<Tensor> inputs;
  inputs.push_back(std::move(x));
  return std::move(run(std::move(inputs), pass).front());
}

}  // namespace accrue
