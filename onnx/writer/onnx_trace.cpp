#include "onnx/writer/onnx_trace.h"

#include <algorithm>
#include <limits>

namespace accrue {

OnnxTrace::OnnxTrace(const Example& traced, int64_t samples, const Parameters& parameters,
                     const std::optional<Normalization>& bytes, const Shapes& before)
    : example(traced), shapes_{samples}, earlier_(before) {
  const auto first = example.inputs.front().values.shape().sizes();
  free_.assign(first.begin(), first.begin() + std::ssize(example.free_sizes));
  for (const auto* entries : {&parameters.all_entries(), &parameters.buffer_entries()})
    for (const Parameters::Entry& entry : *entries)
      parameters_[entry.tensor.view().data] = entry.name;
  for (const auto& [name, values] : example.inputs) {
    const bool is_bytes = bytes && name == example.inputs.front().name;
    graph.add_input(name, is_bytes ? DType::u8 : values.dtype(), values.shape(),
                    example.free_sizes);
    define(values.view(), name);
  }
  if (bytes) define_bytes(example.inputs.front(), *bytes);
  if (example.positions.defined()) define_positions();
}

void OnnxTrace::define_bytes(const Example::Input& input, const Normalization& normalization) {
  const Shape& shape = input.values.shape();
  check_normalization(normalization, shape, "an ONNX file of bytes:");
  const auto per_channel = [&](const std::vector<double>& values, auto of) {
    std::vector<float> all;
    for (const double value : values) all.push_back(static_cast<float>(of(value)));
    return graph.numbers(all, all.size() == 1 ? Shape() : Shape{std::ssize(all), 1, 1});
  };
  Name x = cast(input.name, onnx::TensorProto::FLOAT);
  x = graph.add("Div", {x, graph.number(255)});
  x = graph.add("Sub", {x, per_channel(normalization.mean, [](double mean) { return mean; })});
  x = multiply(x, per_channel(normalization.std, [](double std) { return 1 / std; }));
  define(input.values.view(), x);
}

// sizes = [N, T], positions[n, t] = t
void OnnxTrace::define_positions() {
  sizes = graph.add("Shape", {example.inputs.front().name});
  const Name zero = graph.integer(0), one = graph.integer(1);
  const Name T = graph.add("Gather", {sizes, one});
  define(example.positions.view(),
         graph.add("Expand", {graph.add("Range", {zero, T, one}), sizes}));
}

void OnnxTrace::check_positions(const View& positions) const {
  check(example.positions.defined() && positions.data == example.positions.view().data,
        "an ONNX graph takes rows that are one document each, got other positions");
}

void OnnxTrace::check_alike(bool is_alike) const {
  check(is_alike,
        "a network that runs {} samples by other steps than {} has no counterpart in ONNX",
        shapes_.samples, earlier_.samples);
}

OnnxTrace::FreeShape OnnxTrace::free_shape(const Shape& shape) {
  const size_t at = shapes_.all.size();
  shapes_.all.push_back(shape);
  if (earlier_.all.empty()) return {shape, shape};
  check_alike(at < earlier_.all.size() && earlier_.all[at].rank() == shape.rank());
  return {shape, earlier_.all[at]};
}

// A free size is a multiple of the number of samples, and maybe some more.
OnnxTrace::Name OnnxTrace::sizes_of(const FreeShape& shape) {
  std::vector<Name> parts;
  Integers fixed;
  const auto add_fixed = [&] {
    if (!fixed.empty()) parts.push_back(graph.integers(fixed));
    fixed.clear();
  };
  for (int d = 0; d < shape.shape.rank(); ++d) {
    if (!shape.is_free(d)) {
      fixed.push_back(shape.shape[d]);
      continue;
    }
    add_fixed();
    const int64_t each = (shape.before[d] - shape.shape[d]) / (earlier_.samples - shapes_.samples);
    const int64_t more = shape.shape[d] - each * shapes_.samples;
    if (samples_.empty()) {
      const Name all = graph.add("Shape", {example.inputs.front().name});
      samples_ = graph.add("Gather", {all, graph.integers({0})});
    }
    Name size = each == 1 ? samples_ : multiply(samples_, graph.integers({each}));
    if (more != 0) size = sum(size, graph.integers({more}));
    parts.push_back(size);
  }
  add_fixed();
  if (parts.empty()) return graph.integers({});
  return parts.size() == 1 ? parts.front() : graph.add("Concat", parts, {{"axis", 0}});
}

OnnxTrace::Name OnnxTrace::unseen_from(int64_t first, const FreeShape& sizes) {
  const Name never = graph.number(-std::numeric_limits<double>::infinity());
  const Name all = graph.add("Expand", {never, sizes_of(sizes)});
  return graph.add("Trilu", {all, graph.integer(first)}, {{"upper", int64_t{1}}});
}

OnnxTrace::Name OnnxTrace::softmax_of_seen(const Name& scores, const Name& key_mask,
                                           const Integers& shape) {
  const auto softmax = [&](const Name& x) {
    return graph.add("Softmax", {x}, {{"axis", int64_t{-1}}});
  };
  if (key_mask.empty()) return softmax(scores);
  const Name is_seen = cast(graph.reshape(key_mask, shape), onnx::TensorProto::BOOL);
  const Name never = graph.number(-std::numeric_limits<double>::infinity());
  const Name a = softmax(graph.add("Where", {is_seen, scores, never}));
  return graph.add("Where", {graph.add("IsNaN", {a}), graph.number(0), a});
}

OnnxTrace::Name OnnxTrace::reshaped(const Name& x, const FreeShape& from, const FreeShape& to) {
  if (has_tokens()) return reshaped_tokens(x, to.shape);
  const auto all = to.shape.sizes();
  Integers target(all.begin(), all.end());
  int unknown = 0;
  for (int d = 0; d < to.shape.rank(); ++d) {
    if (!to.is_free(d)) continue;
    const bool is_kept = unknown > 0 && d < from.shape.rank() && from.shape[d] == to.shape[d] &&
                         from.before[d] == to.before[d];
    target[size_t(d)] = is_kept ? 0 : -1;
    if (!is_kept) ++unknown;
  }
  if (unknown > 1) return graph.add("Reshape", {x, sizes_of(to)});
  return graph.reshape(x, target);
}

// Rows of tokens [N, T] may also have the shape [N T, ...].
OnnxTrace::Name OnnxTrace::reshaped_tokens(const Name& x, const Shape& shape) {
  const auto all = shape.sizes();
  const bool has_both = all.size() >= 2 && std::ranges::equal(free_, all.first(2));
  if (!has_both) {
    Integers target(all.begin(), all.end());
    target.front() = -1;
    return graph.reshape(x, target);
  }
  const Integers rest(all.begin() + 2, all.end());
  const Name target =
      rest.empty() ? sizes : graph.add("Concat", {sizes, graph.integers(rest)}, {{"axis", 0}});
  return graph.add("Reshape", {x, target});
}

std::string OnnxTrace::name_of(const View& x) const {
  const auto found = parameters_.find(x.data);
  return found == parameters_.end() ? "constant" : found->second;
}

void OnnxTrace::define(const View& y, const Name& value) {
  values_[y.data] = {{value, free_shape(y.shape), bytes_of(y.dtype, y.numel())}};
  std::erase_if(constants_, [&](const auto& each) { return each.first.first == y.data; });
}

OnnxTrace::Name OnnxTrace::in(const View& x) {
  const FreeShape shape = free_shape(x.shape);
  const auto found = values_.find(x.data);
  if (found != values_.end()) {
    const auto known = std::ranges::find(found->second, shape, &Value::shape);
    if (known != found->second.end()) return known->name;
  }
  const auto sizes = x.shape.sizes();
  Name& constant = constants_[{x.data, Integers(sizes.begin(), sizes.end())}];
  if (!constant.empty()) return constant;
  if (found != values_.end()) {
    const auto known = std::ranges::find_if(found->second, [&](const Value& value) {
      return value.shape.shape.numel() == x.numel() &&
             value.shape.before.numel() == shape.before.numel();
    });
    if (known != found->second.end()) {
      const Name name = reshaped(known->name, known->shape, shape);
      found->second.push_back({name, shape, known->bytes});
      return name;
    }
  }
  const auto after = values_.upper_bound(x.data);
  for (auto each = values_.begin(); each != after; ++each)
    for (const auto& [name, whole, bytes] : each->second)
      check(static_cast<const char*>(x.data) >= static_cast<const char*>(each->first) + bytes,
            "a part {} of a tensor {} has no counterpart in ONNX", x.shape, whole.shape);
  return constant = graph.constant(name_of(x), x);
}

void OnnxTrace::add(const KernelCall& call) {
  if (is_in_op_) return;
  for (const auto& nodes :
       {add_arithmetic, add_general, add_product, add_norm, add_of_images, add_of_tokens})
    if (nodes(*this, call)) return;
  fail(
      "the kernel {} has no counterpart in ONNX outside a Graph: a network that needs it can be "
      "exported where a Graph calls the op",
      call.name());
}

// The operands are held, so that no result is written over them.
std::vector<Tensor> OnnxTrace::run(const GraphOp& op, OpCall& call) {
  const OnnxNodes nodes = nodes_of(op.name);
  if (!nodes) return op.run(call);
  const OpCall seen = call;
  is_in_op_ = true;
  std::vector<Tensor> results = op.run(call);
  is_in_op_ = false;
  const std::vector<Name> names = nodes({*this, seen, results});
  for (size_t i = 0; i < names.size(); ++i) {
    const View y = results[i].view();
    const FreeShape shape = free_shape(y.shape);
    std::vector<Value>& all = values_[y.data];
    // An operand's tensor, or a new one.
    const bool is_known = std::ranges::find(all, shape, &Value::shape) != all.end();
    if (!is_known) all.push_back({names[i], shape, bytes_of(y.dtype, y.numel())});
  }
  return results;
}

// A size that grows by the number of samples has the name of that.
void OnnxTrace::define_answer(const Name& name, const Tensor& y) {
  const Name value = in(y);
  const FreeShape shape = free_shape(y.shape());
  std::vector<std::string> sizes;
  for (int d = 0; d < y.shape().rank(); ++d) {
    const auto place = size_t(d);
    const bool is_token_size = has_tokens() && place < 2 && y.size(d) == free_[place];
    sizes.emplace_back();
    if (is_token_size) sizes.back() = example.free_sizes[place];
    else if (shape.is_free(d))
      sizes.back() =
          y.size(d) == shapes_.samples ? example.free_sizes.front() : fmt::format("{}_{}", name, d);
  }
  graph.add_answer(name, value, y.dtype(), y.shape(), sizes);
}

void OnnxTrace::run() {
  const NoGrad no_grad;
  const std::vector<Tensor> answers = example.answers();
  check(answers.size() == example.answer_names.size(), "an ONNX file of {}: expected {}",
        counted(std::ssize(answers), "answer"), example.answer_names.size());
  for (size_t i = 0; i < answers.size(); ++i) define_answer(example.answer_names[i], answers[i]);
  check_alike(earlier_.all.empty() || earlier_.all.size() == shapes_.all.size());
}

std::string onnx_of(const ExampleOf& example, const Parameters& parameters,
                    const Metadata& metadata, const std::optional<Normalization>& bytes) {
  constexpr int64_t samples = 2;
  const Example traced = example(samples);
  check(!traced.inputs.empty(), "an ONNX graph without inputs: expected at least one");
  OnnxTrace::Shapes before;
  if (traced.free_sizes.size() == 1) {
    const Example another = example(samples + 1);
    OnnxTrace rehearsal(another, samples + 1, parameters, bytes, {});
    rehearsal.run();
    before = rehearsal.shapes();
  }
  OnnxTrace trace(traced, samples, parameters, bytes, before);
  trace.run();
  return trace.graph.finish(metadata);
}

}  // namespace accrue
