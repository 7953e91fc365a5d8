// How a graph runs: its schedules and passes.

#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"
#include "core/recompute_several.h"
#include "kernels/computed.h"
#include "layers/graph_parts.h"
#include "layers/layers.h"

namespace accrue {

std::vector<size_t> Graph::live_calls(const std::vector<size_t>& outputs) const {
  std::vector<bool> is_read(values_.size());
  for (const size_t output : outputs) is_read[output] = true;
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

Graph::Schedule Graph::schedule_of(std::vector<size_t> order, std::vector<size_t> outputs) const {
  std::vector<size_t> last_use(values_.size());
  for (size_t position = 0; position < order.size(); ++position) {
    const Call& call = calls_[order[position]];
    for (const auto* values : {&call.operands, &call.results})
      for (const size_t value : *values)
        if (value != Value::none) last_use[value] = position;
  }
  for (const size_t output : outputs) last_use[output] = order.size();
  Schedule schedule{std::move(order), std::move(last_use), std::move(outputs)};
  schedule.joined = joined_of(schedule);
  return schedule;
}

bool Graph::is_op(const Call& call, std::string_view name) {
  return call.op && call.op->op.name == name;
}

bool Graph::is_linear(const Call& call) {
  const auto* const layer = dynamic_cast<const Linear*>(call.layer);
  return is_op(call, "linear") || (layer && layer->places() == 1);
}

bool Graph::can_activate(const Call& call) {
  if (call.op) return call.op->op.can_activate;
  const auto* const layer = dynamic_cast<const BatchNorm*>(call.layer);
  return layer && layer->places() == 1;
}

std::optional<formula::AnyPointwise> Graph::gelu_of(const Call& call) {
  const bool is_gelu = is_op(call, "gelu");
  const auto is_kind = [&](const char* kind) {
    return is_gelu && call.op->attributes.front() == OpValue(std::string(kind));
  };
  if (dynamic_cast<const Gelu*>(call.layer) || is_kind("none")) return formula::Gelu{};
  if (dynamic_cast<const GeluTanh*>(call.layer) || is_kind("tanh")) return formula::GeluTanh{};
  return std::nullopt;
}

size_t Graph::term_slot(const Call& sum, const Call& linear) {
  return sum.operands.front() == linear.results.front() ? 1 : 0;
}

std::vector<size_t> Graph::joined_of(const Schedule& schedule) const {
  const auto& [order, last_use, outputs, _] = schedule;
  std::vector<size_t> reads(values_.size()), joined(order.size(), Value::none);
  for (const size_t output : outputs) ++reads[output];
  for (const size_t c : order)
    for (const size_t value : calls_[c].operands)
      if (value != Value::none) ++reads[value];
  // From the end, because a sum with a relu is joined to no linear.
  for (size_t position = order.size(); position-- > 0;) {
    const size_t c = order[position], result = calls_[c].results.front(), next = last_use[result];
    if (reads[result] != 1 || next >= order.size()) continue;
    const Call &call = calls_[c], &reader = calls_[order[next]];
    const bool is_relu =
        dynamic_cast<const Relu*>(reader.layer) != nullptr || is_op(reader, "relu");
    const bool is_sum = is_op(reader, "add") && joined[next] == Value::none &&
                        !values_[reader.operands[term_slot(reader, call)]].held;
    // By the calls' numbers, which every schedule shares.
    const bool is_next = order[next] == c + 1;
    if (can_activate(call) ? is_relu : is_linear(call) && is_next && (is_sum || gelu_of(reader)))
      joined[position] = next;
  }
  return joined;
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
    const bool is_weight = call.op && call.op->takes_weight(slot);
    return is_weight ? held->tensor() : as_computed(held->tensor());
  }
  const auto later = call.operands.begin() + std::ptrdiff_t(slot) + 1;
  const bool is_last = schedule.last_use[value] == position &&
                       std::find(later, call.operands.end(), value) == call.operands.end();
  return is_last ? std::move(values[value]) : values[value];
}

// Whether a call runs with the one that is joined to it, in a pass over calls before `end`.
bool Graph::runs_joined(const Schedule& schedule, size_t position, size_t end, const Values& values,
                        const Running& running) const {
  const size_t joined = schedule.joined[position];
  if (joined >= end || OpTrace::current() || running.pass.observe) return false;
  const Call &call = calls_[schedule.order[position]], &reader = calls_[schedule.order[joined]];
  if (!is_linear(call)) return true;
  const auto value = [&](size_t number) -> const Tensor& {
    const Held* const held = values_[number].held;
    return held ? held->tensor() : values[number];
  };
  const Tensor& x = value(call.operands.front());
  if (!plans_for_cuda(x.device())) return false;
  const auto* const layer = static_cast<const Linear*>(call.layer);
  if (gelu_of(reader)) {
    // The pass that is spared is that for the bias's gradient.
    const size_t bias = call.operands.size() > 2 ? call.operands[2] : Value::none;
    const bool is_trained =
        layer ? layer->has_trained_bias() : bias != Value::none && Edge(value(bias)).wants_grad();
    return is_trained && running.pass.training();
  }
  const Tensor& term = value(reader.operands[term_slot(reader, call)]);
  const int rank = x.shape().rank();
  if (rank == 0 || term.dtype() != x.dtype()) return false;
  if (layer) return term.shape() == layer->shape_of(x.shape());
  const Shape& w = value(call.operands[1]).shape();
  return w.rank() == 2 && term.shape() == x.shape().with(rank - 1, w[0]);
}

// The results of a call and of the one at position `joined`, unless that is Value::none.
std::vector<Tensor> Graph::results_of(const Schedule& schedule, size_t position, size_t joined,
                                      Values& values, const Running& running) const {
  const Call& call = calls_[schedule.order[position]];
  std::vector<Tensor> operands, results;
  for (size_t slot = 0; slot < call.operands.size(); ++slot)
    operands.push_back(take(schedule, position, slot, values));
  Activation activation = Activation::none;
  std::optional<formula::AnyPointwise> formula;
  Tensor term;
  if (joined != Value::none) {
    const Call& reader = calls_[schedule.order[joined]];
    formula = gelu_of(reader);
    if (!is_linear(call)) activation = Activation::relu;
    else if (!formula) term = take(schedule, joined, term_slot(reader, call), values);
  }
  if (call.layer) {
    Tensor x = std::move(operands.front());
    const Pass& pass = running.pass;
    const auto* const linear = dynamic_cast<const Linear*>(call.layer);
    const auto* const norm = dynamic_cast<const BatchNorm*>(call.layer);
    if (activation != Activation::none) results.push_back(norm->with_relu(x, pass));
    else if (formula) results.push_back(linear->then(*formula, std::move(x), pass));
    else if (term.defined()) results.push_back(linear->add_to(std::move(term), std::move(x), pass));
    else results.push_back((*call.layer)(std::move(x), pass));
    return results;
  }
  if (term.defined()) {
    operands.resize(call.op->op.operands().size());
    operands.push_back(std::move(term));
  }
  results =
      (*call.op)(std::move(operands), {.pass = running.pass,
                                       .node = call.op,
                                       .number = first_of_ops + uint32_t(schedule.order[position]),
                                       .samples = running.samples,
                                       .dtype = running.dtype,
                                       .is_fixed = has_fixed_weights(call),
                                       .activation = activation,
                                       .formula = formula});
  check(results.size() == call.results.size(), "[{}] has {} in {}, expected {}", call.op->op.name,
        counted(std::ssize(results), "result"), call.name, call.results.size());
  return results;
}

void Graph::run_calls(const Schedule& schedule, size_t begin, size_t end, Values& values,
                      const Running& running) const {
  std::vector<bool> is_done(end - begin);
  for (size_t position = begin; position < end; ++position) {
    if (is_done[position - begin]) continue;
    const bool is_joined = runs_joined(schedule, position, end, values, running);
    const size_t joined = is_joined ? schedule.joined[position] : Value::none;
    std::vector<Tensor> results = results_of(schedule, position, joined, values, running);
    const size_t last = is_joined ? joined : position;
    if (is_joined) is_done[joined - begin] = true;
    const std::vector<size_t>& made = calls_[schedule.order[last]].results;
    for (size_t i = 0; i < results.size(); ++i)
      if (schedule.last_use[made[i]] > last) values[made[i]] = std::move(results[i]);
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
  std::vector<size_t> read, made;
  for (size_t position = begin; position < end; ++position) {
    const Call& call = calls_[schedule->order[position]];
    for (const size_t value : call.operands)
      if (value != Value::none && !values_[value].held && !is_made[value] &&
          std::ranges::find(read, value) == read.end())
        read.push_back(value);
    for (const size_t result : call.results) {
      is_made[result] = true;
      if (schedule->last_use[result] >= end) made.push_back(result);
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
    std::vector<Tensor> results;
    for (const size_t result : made) results.push_back(std::move(inner[result]));
    return results;
  };
  std::vector<Tensor> results = recompute_several(segment, inputs);
  for (size_t i = 0; i < made.size(); ++i) values[made[i]] = std::move(results[i]);
}

void Graph::run_in_segments(const Schedule& plain, Values& values, const Running& running) const {
  const auto cutting = cutting_for(plain, differentiable(values), running.pass.recompute);
  const auto& [_, recompute, schedule, first, ends] = *cutting;
  run_calls(*schedule, 0, first, values, running);
  // A segment that is alone has nothing that it could be computed again from but all there is.
  if (ends.size() == 1) return run_calls(*schedule, first, ends[0], values, running);
  Pass inner = running.pass;
  inner.recompute = Recompute::none;
  const Running within{inner, running.samples, running.dtype};
  size_t begin = first;
  for (size_t s = 0; s + 1 < ends.size(); ++s) {
    run_segment(schedule, begin, ends[s], values, within);
    begin = ends[s];
  }
  // Not the last segment: its backward would begin with what has just been dropped.
  run_calls(*schedule, begin, ends.back(), values, within);
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
  return run(plain_, std::move(inputs), pass);
}

std::vector<Tensor> Graph::run(const Schedule& plain, std::vector<Tensor> inputs,
                               const Pass& pass) const {
  check(inputs.size() == inputs_.size() && !inputs.empty(),
        "[graph] a network of {} runs on {}: expected a tensor for each, and at least one",
        counted(std::ssize(inputs_), "input"), counted(std::ssize(inputs), "tensor"));
  check(!outputs_.empty(), "[graph] a network without outputs runs: expected output() before");
  const Running running{pass, inputs[0].shape().rank() ? inputs[0].size(0) : 1,
                        computes_in(inputs)};
  Values values(values_.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = std::move(inputs[i]);
  if (pass.recompute == Recompute::none) run_calls(plain, 0, plain.order.size(), values, running);
  else run_in_segments(plain, values, running);
  std::vector<Tensor> outputs;
  for (const size_t output : plain.outputs) {
    const Held* const held = values_[output].held;
    outputs.push_back(held ? as_computed(held->tensor()) : values[output]);
  }
  return outputs;
}

std::vector<Tensor> Graph::outputs_of(std::vector<Tensor> inputs,
                                      const std::vector<std::string>& wanted,
                                      const Pass& pass) const {
  check(!wanted.empty(), "[graph] no outputs are wanted: expected {}",
        fmt::join(output_names(), ", "));
  const std::vector<std::string> names = output_names();
  std::vector<size_t> outputs;
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(names, name);
    check(found != names.end(), "[graph] the network has no output '{}': it has {}", name,
          fmt::join(names, ", "));
    outputs.push_back(outputs_[size_t(found - names.begin())]);
  }
  const Shape shape = inputs.empty() ? Shape() : inputs.front().shape();
  std::vector<Tensor> found;
  Module::run(shape, pass, [&] {
    found = outputs == outputs_
                ? run(std::move(inputs), pass)
                : run(schedule_of(live_calls(outputs), outputs), std::move(inputs), pass);
    return found.front();
  });
  return found;
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
