#include "train/onnx/onnx_trace.h"

#include <algorithm>

namespace accrue {

OnnxTrace::OnnxTrace(const Example& traced, const Parameters& parameters,
                     const std::optional<Normalization>& bytes)
    : example(traced) {
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
  Name x = graph.add("Cast", {input.name}, {{"to", int64_t(onnx::TensorProto::FLOAT)}});
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

// Rows of tokens [N, T] may also have the shape [N T, ...].
OnnxTrace::Name OnnxTrace::reshaped(const Name& x, const Shape& shape) {
  const auto all = shape.sizes();
  const bool has_both =
      free_.size() == 2 && all.size() >= 2 && std::ranges::equal(free_, all.first(2));
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

OnnxTrace::Name OnnxTrace::in(const View& x) {
  const auto after = values_.upper_bound(x.data);
  if (after != values_.begin()) {
    const auto& [data, value] = *std::prev(after);
    const bool is_of_it =
        static_cast<const char*>(x.data) < static_cast<const char*>(data) + value.bytes;
    const bool is_whole = x.data == data && x.numel() == value.shape.numel();
    check(is_whole || !is_of_it, "a part {} of a tensor {} has no counterpart in ONNX", x.shape,
          value.shape);
    if (is_whole) return x.shape == value.shape ? value.name : reshaped(value.name, x.shape);
  }
  const auto sizes = x.shape.sizes();
  Name& name = constants_[{x.data, Integers(sizes.begin(), sizes.end())}];
  if (name.empty()) name = graph.constant(name_of(x), x);
  return name;
}

void OnnxTrace::add(const KernelCall& call) {
  for (const auto& nodes : {add_arithmetic, add_product, add_norm, add_of_images, add_of_tokens})
    if (nodes(*this, call)) return;
  fail("the kernel {} has no counterpart in ONNX: a network that needs it cannot be exported",
       call.name());
}

std::string onnx_of(const Example& example, const Parameters& parameters, const Metadata& metadata,
                    const std::optional<Normalization>& bytes) {
  check(!example.inputs.empty(), "an ONNX graph without inputs: expected at least one");
  OnnxTrace trace(example, parameters, bytes);
  const NoGrad no_grad;
  const Tensor y = example.answer();
  std::vector<std::string> sizes = example.free_sizes;
  sizes.resize(example.free_sizes_of_answer.value_or(sizes.size()));
  trace.graph.set_answer(example.answer_name, trace.in(y.view()), y.shape(), sizes);
  return trace.graph.finish(metadata);
}

}  // namespace accrue
