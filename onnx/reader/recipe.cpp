#include "onnx/reader/recipe.h"

#include <algorithm>
#include <cmath>

#include "core/inside.h"

namespace accrue {
namespace {

Extents extents_of(const Shape& shape) {
  Extents extents;
  for (const int64_t size : shape.sizes()) extents.emplace_back(size);
  return extents;
}

DType stored_dtype(OnnxType type) { return detail::is_floating(type) ? DType::f32 : DType::i32; }

// Bytes of the results for a sample.
double bytes_of_sample(const std::vector<ValueSizes>& results) {
  double bytes = 0;
  for (const ValueSizes& result : results)
    bytes += 4 * double(result.of(3).numel() - result.of(2).numel());
  return bytes;
}

// Elements that i32 cannot hold, such as the largest int64 for "to the end", become the nearest.
std::vector<double> as_stored(const std::vector<double>& numbers, DType dtype) {
  std::vector<double> stored = numbers;
  if (dtype == DType::i32)
    for (double& each : stored) each = std::clamp(each, double(INT32_MIN), double(INT32_MAX));
  return stored;
}

}  // namespace

OnnxValue detail::onnx_value_of(std::shared_ptr<const OnnxConstant> constant,
                                const std::string& name) {
  OnnxValue value{.name = name, .type = constant->type()};
  value.sizes.dtype = stored_dtype(value.type);
  const Shape &few = constant->shape(0), &many = constant->shape(1);
  check(few.rank() == many.rank(),
        "a constant is {} for {} samples and {} for {}: expected as many "
        "dimensions for any number",
        few, rehearsed_samples[0], many, rehearsed_samples[1]);
  for (int i = 0; i < few.rank(); ++i) {
    const auto extent = extent_of(few[i], many[i]);
    check(extent.has_value(),
          "a constant is {} for {} samples and {} for {}: expected sizes that are the same, or "
          "multiples of the samples",
          few, rehearsed_samples[0], many, rehearsed_samples[1]);
    value.sizes.shape.push_back(*extent);
  }
  value.constant = std::move(constant);
  return value;
}

OnnxValue OnnxRecipe::added(Step step, OnnxType type, ValueSizes sizes) {
  OnnxValue value{.type = type, .number = values_++, .sizes = std::move(sizes)};
  step.results = {value.number};
  steps_.push_back(std::move(step));
  return value;
}

OnnxValue OnnxRecipe::input(const std::string& name, OnnxType type, ValueSizes sizes) {
  return added({.name = name}, type, std::move(sizes));
}

OnnxValue OnnxRecipe::held(const OnnxTensor& initializer, bool is_buffer) {
  const auto found = held_.find(initializer.name);
  if (found != held_.end()) {
    check(found->second.is_parameter != is_buffer,
          "'{}' is a weight of one node and running statistics of another: expected one of the two",
          initializer.name);
    return found->second;
  }
  check(is_floating(initializer.type), "the weight '{}' is {}: expected a floating type",
        initializer.name, to_string(initializer.type));
  OnnxValue value = added(
      {.name = initializer.name, .held = Held{initializer.name, initializer.shape, is_buffer}},
      initializer.type, {.shape = extents_of(initializer.shape)});
  value.is_parameter = !is_buffer;
  return held_[initializer.name] = value;
}

OnnxValue detail::constant_for_one(const OnnxValue& value) {
  const OnnxConstant& constant = *value.constant;
  if (constant.is_fixed()) return value;
  const Extents& extents = value.sizes.shape;
  const auto place = std::ranges::find(extents, true, &Extent::per_sample);
  check(place != extents.end() && *place == Extent::of_samples(),
        "a constant has elements that depend on the number of samples: expected the same for each "
        "sample");
  const int dim = int(place - extents.begin());
  const Shape& shape = constant.shape();
  const int64_t outer = shape.numel(0, dim), inner = shape.numel(dim + 1, shape.rank());
  std::vector<double> once(size_t(outer * inner));
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const auto& all = constant.numbers(which);
    const int64_t samples = rehearsed_samples[which];
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const double each = all[size_t(i)];
      double& first = once[size_t(i / (samples * inner) * inner + i % inner)];
      if (which == 0 && i / inner % samples == 0) first = each;
      check(each == first || (std::isnan(each) && std::isnan(first)),
            "a constant differs from sample to sample: expected the same for each sample");
    }
  }
  return onnx_value_of(
      std::make_shared<const OnnxConstant>(constant.type(), shape.with(dim, 1), std::move(once)),
      value.name);
}

OnnxValue OnnxRecipe::tensor(const OnnxValue& value) {
  if (!value.is_constant()) return value;
  if (const auto found = tensors_.find(value.constant.get()); found != tensors_.end())
    return found->second;
  const OnnxType type = value.constant->type();
  check(type != OnnxType::string, "a constant is text: expected numbers");
  const OnnxValue one = constant_for_one(value);
  const OnnxConstant& constant = *one.constant;
  const DType dtype = stored_dtype(type);
  const std::string name =
      value.name.empty() ? fmt::format("constant {}", tensors_.size() + 1) : value.name;
  Step step{
      .name = name,
      .numbers = std::make_shared<const std::vector<double>>(as_stored(constant.numbers(), dtype)),
      .shape = constant.shape(),
      .dtype = dtype};
  OnnxValue made = added(std::move(step), type, {extents_of(constant.shape()), dtype});
  if (!value.constant->is_fixed())
    made = call("expand", {made}, 1, {{"size", value.sizes.shape}}, "").front();
  made.type = type;
  kept_.push_back(value.constant);
  return tensors_[value.constant.get()] = made;
}

OnnxValues OnnxRecipe::call(std::string_view name, const OnnxValues& operands, size_t results,
                            const Graph::Attributes& attributes, const std::string& scope) {
  const GraphOp& op = graph_op(name);
  std::vector<OnnxValue> values;
  std::vector<bool> defined;
  for (const OnnxValue& operand : operands) {
    defined.push_back(operand.is_constant() || operand.number != OnnxValue::none);
    values.push_back(defined.back() ? tensor(operand) : operand);
  }
  op.check_operands(defined);
  Step step{.name = scope, .op = &op, .attributes = attributes};
  std::vector<const ValueSizes*> sizes;
  int64_t outer = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    sizes.push_back(defined[i] ? &values[i].sizes : nullptr);
    step.operands.push_back(values[i].number);
    if (!defined[i] || values[i].outer == 1) continue;
    check(outer == 1 || outer == values[i].outer,
          "the samples of its operands lie in other orders: expected the same");
    outer = values[i].outer;
  }
  const std::vector<ValueSizes> found = sizes_of_results(op, sizes, attributes);
  check(found.size() == results, "[{}] has {} results: expected {}", name, found.size(), results);
  step.weight = std::max(bytes_of_sample(found), 1.0);
  OnnxValues made;
  for (const ValueSizes& each : found) {
    check(std::ranges::count(each.shape, true, &Extent::per_sample) <= 1,
          "the result is {}, which mixes samples: expected one dimension of samples",
          to_string(each));
    made.push_back({.type = each.dtype == DType::i32 ? OnnxType::i64 : OnnxType::f32,
                    .number = values_++,
                    .sizes = each,
                    .outer = outer});
    step.results.push_back(made.back().number);
  }
  steps_.push_back(std::move(step));
  return made;
}

void OnnxRecipe::output(const OnnxValue& value, const std::string& name) {
  outputs_.emplace_back(tensor(value).number, name);
}

void OnnxRecipe::note(const std::string& sentence) {
  if (std::ranges::find(notes_, sentence) == notes_.end()) notes_.push_back(sentence);
}

void OnnxRecipe::prune() {
  std::vector<bool> needed(values_);
  for (const auto& [value, name] : outputs_) needed[value] = true;
  std::vector<Step> kept;
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    const bool is_input = !step.held && !step.numbers && !step.op;
    if (!is_input && std::ranges::none_of(step.results, [&](size_t r) { return needed[r]; }))
      continue;
    for (const size_t operand : step.operands)
      if (operand != OnnxValue::none) needed[operand] = true;
    kept.push_back(std::move(step));
  }
  std::ranges::reverse(kept);
  steps_ = std::move(kept);
}

std::unique_ptr<Graph> OnnxRecipe::make() const {
  auto graph = std::make_unique<Graph>();
  std::vector<Graph::Value> values(values_);
  for (const Step& step : steps_) {
    const auto set = [&](Graph::Value value) { values[step.results.front()] = value; };
    if (step.held) {
      const auto& [name, shape, is_buffer] = *step.held;
      set(is_buffer ? graph->buffer(name, shape, Init::constant(0))
                    : graph->parameter(name, shape, Init::constant(0)));
    } else if (step.numbers) {
      set(graph->constant(step.name, *step.numbers, step.shape, step.dtype));
    } else if (!step.op) {
      set(graph->input(step.name));
    } else {
      std::vector<Graph::Value> operands;
      for (const size_t operand : step.operands)
        operands.push_back(operand == OnnxValue::none ? Graph::Value() : values[operand]);
      const auto made =
          graph->call(step.op->name, operands, step.results.size(), step.attributes, step.name);
      for (size_t i = 0; i < made.size(); ++i) values[step.results[i]] = made[i];
      graph->weigh(made.front(), step.weight);
    }
  }
  for (const auto& [value, name] : outputs_) graph->output(values[value], name);
  return graph;
}

std::vector<OnnxRecipe::Held> OnnxRecipe::weights() const {
  std::map<size_t, const Held*> held;
  std::vector<Held> used;
  for (const Step& step : steps_) {
    if (step.held) held[step.results.front()] = &*step.held;
    for (const size_t operand : step.operands) {
      const auto found = held.find(operand);
      if (found == held.end()) continue;
      used.push_back(*found->second);
      held.erase(found);
    }
  }
  return used;
}

std::set<std::string> OnnxRecipe::truths() const {
  std::map<size_t, const Step*> givers;
  std::vector<size_t> open;
  for (const Step& step : steps_) {
    for (const size_t result : step.results) givers[result] = &step;
    if (!step.op || step.op->name != "embedding") continue;
    const Step& table = *givers.at(step.operands[1]);
    if (table.numbers && *table.numbers == std::vector<double>{0, 1})
      open.push_back(step.operands[0]);
  }
  std::set<std::string> names;
  std::set<size_t> seen;
  while (!open.empty()) {
    const size_t value = open.back();
    open.pop_back();
    if (value == OnnxValue::none || !seen.insert(value).second) continue;
    const Step& giver = *givers.at(value);
    if (!giver.op && !giver.held && !giver.numbers) names.insert(giver.name);
    open.insert(open.end(), giver.operands.begin(), giver.operands.end());
  }
  return names;
}

size_t OnnxRecipe::calls() const {
  return size_t(std::ranges::count_if(steps_, [](const Step& step) { return step.op != nullptr; }));
}

}  // namespace accrue
