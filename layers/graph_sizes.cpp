#include "layers/graph_sizes.h"

#include <algorithm>

#include "core/inside.h"

namespace accrue {

Shape ValueSizes::of(int64_t samples) const {
  std::vector<int64_t> sizes;
  for (const Extent& extent : shape) sizes.push_back(extent.of(samples));
  return Shape(sizes);
}

std::string detail::to_string(const ValueSizes& sizes) {
  std::string text = to_string(OpValue(sizes.shape));
  text = text.substr(1, text.size() - 2);
  if (text.ends_with(',')) text.pop_back();
  return fmt::format("[{}]{}", text, sizes.dtype == DType::f32 ? "" : " i32");
}

std::optional<Extent> detail::extent_of(int64_t first, int64_t second) {
  const auto [few, many] = rehearsed_samples;
  if (first == second) return Extent(first);
  if (first % few != 0 || first / few * many != second) return std::nullopt;
  return Extent::of_samples(first / few);
}

namespace {

Tensor without_elements(const ValueSizes& sizes, int64_t samples) {
  return Tensor::empty(sizes.of(samples), sizes.dtype, Device::meta);
}

Pass pass_of(int64_t samples) {
  return {.samples = Tensor::empty({samples}, DType::i32, Device::meta)};
}

// Sizes of which the tensors at both numbers of samples are examples.
ValueSizes sizes_between(const Tensor& first, const Tensor& second) {
  ValueSizes sizes{.dtype = first.dtype() == DType::i32 ? DType::i32 : DType::f32};
  check(first.shape().rank() == second.shape().rank(),
        "the result has another number of dimensions for other numbers of samples");
  for (int i = 0; i < first.shape().rank(); ++i) {
    const auto extent = extent_of(first.size(i), second.size(i));
    check(extent.has_value(),
          "the result is {} for {} samples and {} for {}: expected sizes that are the same, or "
          "multiples of the samples",
          first.shape(), rehearsed_samples[0], second.shape(), rehearsed_samples[1]);
    sizes.shape.push_back(*extent);
  }
  return sizes;
}

}  // namespace

std::vector<ValueSizes> detail::sizes_of_results(const GraphOp& op,
                                                 const std::vector<const ValueSizes*>& operands,
                                                 const Graph::Attributes& attributes) {
  const std::vector<OpValue> values = op.arguments_of(attributes);
  const NoGrad no_grad;
  const auto results = [&](int64_t samples) {
    std::vector<Tensor> tensors;
    for (const ValueSizes* operand : operands)
      tensors.push_back(operand ? without_elements(*operand, samples) : Tensor());
    tensors.resize(std::max(tensors.size(), op.operands().size()));
    const Pass pass = pass_of(samples);
    OpCall call(op, std::move(tensors), values, {.pass = pass, .node = &op, .samples = samples});
    return op.run(call);
  };
  const auto few = results(rehearsed_samples[0]), many = results(rehearsed_samples[1]);
  std::vector<ValueSizes> sizes;
  for (size_t i = 0; i < few.size(); ++i) sizes.push_back(sizes_between(few[i], many[i]));
  return sizes;
}

ValueSizes detail::sizes_of_result(const ModelFactory& layer, const ValueSizes& operand) {
  const auto model = layer();
  place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
  const NoGrad no_grad;
  const auto result = [&](int64_t samples) {
    return (*model)(without_elements(operand, samples), pass_of(samples));
  };
  return sizes_between(result(rehearsed_samples[0]), result(rehearsed_samples[1]));
}

}  // namespace accrue
