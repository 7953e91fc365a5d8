#include "onnx/reader/walk.h"

#include <algorithm>

#include "core/inside.h"
#include "onnx/reader/folded.h"
#include "onnx/reader/folding.h"

namespace accrue {
namespace {

// Ops that only move elements: what they give of a weight is trained with it.
bool only_moves(const OnnxNode& node) {
  static const std::set<std::string> moves{"Transpose", "Identity", "Reshape", "Squeeze",
                                           "Unsqueeze", "Cast",     "Flatten", "Slice",
                                           "Concat",    "Split"};
  return node.domain.empty() && moves.contains(node.op);
}

// True for names that PyTorch's exporter gives to what no module has: "val_12".
bool is_numbered_by_pytorch(const OnnxFile& file, const std::string& name) {
  constexpr std::string_view before = "val_";
  return file.producer.starts_with("pytorch") && name.starts_with(before) &&
         name.find_first_not_of("0123456789", before.size()) == name.npos;
}

// Factors of 1 and terms of 0 that nobody learns: norms without weights are written with them in
// Constant nodes or in initializers of the exporter's own, and norms of groups as norms of
// instances in other sizes.
bool is_filler(const OnnxFile& file, const OnnxNode& node, size_t slot, const OnnxNode* of_input) {
  if (!node.domain.empty() || !node.op.ends_with("Normalization")) return false;
  const bool is_of_groups =
      node.op == "InstanceNormalization" && of_input && of_input->op == "Reshape";
  const std::string& name = node.inputs[slot];
  if (!is_of_groups && !file.in_nodes.contains(name) && !is_numbered_by_pytorch(file, name))
    return false;
  const auto tensor = file.initializers.find(name);
  if (tensor == file.initializers.end() || !is_floating(tensor->second.type)) return false;
  return std::ranges::all_of(tensor->second.numbers(),
                             [&](double each) { return each == (slot == 1 ? 1 : 0); });
}

const std::set<std::string>& branches() {
  static const std::set<std::string> ops{"If", "Loop", "Scan", "SequenceMap"};
  return ops;
}

// Why a node of this op is no part of a network, and what to do.
std::string refusal_of(const OnnxNode& node) {
  static const std::set<std::string> draws{"RandomNormal", "RandomUniform",
                                           "Multinomial",  "RandomNormalLike",
                                           "Bernoulli",    "RandomUniformLike"};
  static const std::set<std::string> searches{"NonZero",  "TopK",  "NonMaxSuppression", "Unique",
                                              "Compress", "Range", "RoiAlign"};
  const bool is_quantized = node.op.find("Quantize") != std::string::npos ||
                            node.op.starts_with("QLinear") || node.op.ends_with("Integer");
  if (is_quantized)
    return "it is quantized, so that there is nothing to differentiate: expected the file before "
           "its quantization";
  if (!node.domain.empty())
    return fmt::format(
        "its domain is '{}': expected ONNX's own operators; export the network again without those "
        "of a program",
        node.domain);
  if (branches().contains(node.op))
    return "it is control flow: expected a network whose calls are the same for all data; export "
           "it with the branch taken, or the loop unrolled";
  if (draws.contains(node.op))
    return "it draws noise in a way that is not dropout's: expected the network without it";
  if (searches.contains(node.op))
    return "the sizes of its result depend on the data: expected the network's outputs before "
           "this node (choose them by name)";
  if (node.op.starts_with("Sequence") || node.op.ends_with("Sequence") ||
      node.op.starts_with("Optional"))
    return "it is of sequences of tensors: expected tensors";
  return "the operator is unknown here: expected another, or outputs before this node (choose them "
         "by name)";
}

}  // namespace

std::vector<OnnxNode> detail::nodes_needed(const std::vector<OnnxNode>& nodes,
                                           const std::set<std::string>& outputs) {
  std::set<std::string> needed = outputs;
  std::vector<OnnxNode> found;
  for (size_t i = nodes.size(); i-- > 0;) {
    const OnnxNode& node = nodes[i];
    const auto is_needed = [&](const std::string& output) {
      return !output.empty() && needed.contains(output);
    };
    if (std::ranges::none_of(node.outputs, is_needed)) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    found.push_back(node);
  }
  std::ranges::reverse(found);
  return found;
}

void detail::refuse_branches(const std::vector<OnnxNode>& nodes) {
  for (const OnnxNode& node : nodes)
    if (node.domain.empty() && branches().contains(node.op))
      fail("[onnx] {}: {}", node.words(), refusal_of(node));
}

namespace {

using Makers = std::map<std::string, const OnnxNode*>;

// The bias that an Add gives to a convolution or a product: a number for each channel. Empty for
// other nodes.
std::string bias_of(const OnnxFile& file, const OnnxNode& node, const Makers& makers,
                    const std::set<std::string>& weights) {
  static const std::set<std::string> products{"Conv", "ConvTranspose", "Gemm", "MatMul"};
  if (node.op != "Add" || !node.domain.empty() || node.inputs.size() != 2) return {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto bias = file.initializers.find(node.inputs[i]);
    const auto maker = makers.find(node.inputs[1 - i]);
    if (bias == file.initializers.end() || maker == makers.end()) continue;
    const auto sizes = bias->second.shape.sizes();
    const bool fits = is_floating(bias->second.type) && !sizes.empty() &&
                      std::ranges::count_if(sizes, [](int64_t size) { return size != 1; }) <= 1;
    const OnnxNode& product = *maker->second;
    const auto is_weight = [&](std::string name) {
      for (auto by = makers.find(name);
           by != makers.end() && only_moves(*by->second) && !by->second->inputs.empty();
           by = makers.find(name))
        name = by->second->inputs[0];
      return weights.contains(name);
    };
    if (fits && products.contains(product.op) && std::ranges::any_of(product.inputs, is_weight))
      return bias->first;
  }
  return {};
}

Makers makers_in(const std::vector<OnnxNode>& nodes) {
  Makers makers;
  for (const OnnxNode& node : nodes)
    for (const std::string& output : node.outputs) makers[output] = &node;
  return makers;
}

// The values that weight slots hold, directly or through nodes that only move them.
std::set<std::string> values_in_slots(const OnnxFile& file, const std::vector<OnnxNode>& nodes,
                                      const Makers& makers) {
  std::set<std::string> seen;
  std::vector<std::string> open;
  for (const OnnxNode& node : nodes) {
    const auto converter = onnx_converters().find(node.full_op());
    if (converter == onnx_converters().end()) continue;
    const auto of_input = node.inputs.empty() ? makers.end() : makers.find(node.inputs.front());
    const OnnxNode* const maker = of_input == makers.end() ? nullptr : of_input->second;
    for (const size_t slot : converter->second.weights)
      if (slot < node.inputs.size() && !is_filler(file, node, slot, maker))
        open.push_back(node.inputs[slot]);
  }
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!seen.insert(name).second) continue;
    const auto maker = makers.find(name);
    if (maker == makers.end() || !only_moves(*maker->second)) continue;
    const auto& inputs = maker->second->inputs;
    open.insert(open.end(), inputs.begin(),
                maker->second->op == "Concat" ? inputs.end() : inputs.begin() + !inputs.empty());
  }
  return seen;
}

}  // namespace

std::set<std::string> detail::weights_of(const OnnxFile& file, const std::vector<OnnxNode>& nodes) {
  const Makers makers = makers_in(nodes);
  std::set<std::string> weights;
  for (const std::string& name : values_in_slots(file, nodes, makers)) {
    const auto found = file.initializers.find(name);
    if (found != file.initializers.end() && is_floating(found->second.type)) weights.insert(name);
  }
  for (const OnnxNode& node : nodes)
    if (const std::string bias = bias_of(file, node, makers, weights); !bias.empty())
      weights.insert(bias);
  return weights;
}

void OnnxWalk::add(const std::string& name, OnnxValue value) {
  value.name = name;
  for (const Extent& size : value.sizes.shape)
    check(size.number < int64_t{1} << 31, "its result '{}' is {}: expected sizes below 2^31", name,
          to_string(value.sizes));
  check_sizes(value);
  values_[name] = std::move(value);
}

const OnnxValue& OnnxWalk::value(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto tensor = file_.initializers.find(name);
  check(tensor != file_.initializers.end(), "nothing gives '{}'", name);
  OnnxValue value = weights_.contains(name)
                        ? recipe_.held(tensor->second, false)
                        : onnx_value_of(std::make_shared<const OnnxConstant>(tensor->second));
  value.name = name;
  return values_[name] = std::move(value);
}

void OnnxWalk::check_sizes(const OnnxValue& value) const {
  const auto known = file_.known.find(value.name);
  const auto output = std::ranges::find(file_.outputs, value.name, &OnnxValueInfo::name);
  const OnnxValueInfo* const info = output != file_.outputs.end() ? &*output
                                    : known != file_.known.end()  ? &known->second
                                                                  : nullptr;
  if (!info || !info->has_shape) return;
  const Extents& sizes = value.sizes.shape;
  bool agrees = info->sizes.size() == sizes.size();
  for (size_t i = 0; i < info->sizes.size(); ++i) {
    const auto* const number = std::get_if<int64_t>(&info->sizes[i]);
    if (!number || i >= sizes.size()) continue;
    const bool is_so = recipe_.fixed_samples ? sizes[i].of(*recipe_.fixed_samples) == *number
                                             : sizes[i] == Extent(*number);
    agrees &= is_so;
  }
  check(agrees, "its result '{}' is {}: expected {}, which the file says", value.name,
        to_string(value.sizes), sizes_text(*info));
}

OnnxValues OnnxWalk::converted(const OnnxNode& node, OnnxValues inputs,
                               const std::set<std::string>& needed) {
  const auto converter = onnx_converters().find(node.full_op());
  if (converter == onnx_converters().end()) throw Error(refusal_of(node));
  OnnxNode own = node;  // whose outputs that nothing takes are left out
  for (std::string& output : own.outputs)
    if (!needed.contains(output)) output.clear();
  OnnxConversion conversion(own, std::move(inputs), recipe_);
  OnnxValues results = converter->second.run(conversion);
  conversion.check_attributes();
  return results;
}

OnnxValues OnnxWalk::results_of(const OnnxNode& node, const std::set<std::string>& needed) {
  OnnxValues inputs;
  for (const std::string& input : node.inputs)
    inputs.push_back(input.empty() ? OnnxValue() : value(input));
  const bool is_own = node.domain.empty();
  if (is_own && (node.op == "Shape" || node.op == "Size") && inputs.size() == 1)
    return {onnx_value_of(shape_constant(node, inputs.front().sizes))};
  if (is_own && node.op == "Identity" && inputs.size() == 1) return inputs;
  const bool are_constants = std::ranges::all_of(inputs, [](const OnnxValue& input) {
    return input.is_constant() || input.number == OnnxValue::none;
  });
  if (!are_constants || !can_fold(node)) return converted(node, std::move(inputs), needed);
  std::vector<std::shared_ptr<const OnnxConstant>> constants;
  for (const OnnxValue& input : inputs) constants.push_back(input.constant);
  OnnxValues results;
  for (auto& constant : fold(node, constants, recipe_.opset)) {
    folded_ += constant->shape(1).numel();
    results.push_back(onnx_value_of(std::move(constant)));
  }
  check(folded_ <= 2 * most_folded(),
        "the constants that it and the nodes before it give have {} elements: expected at most {}, "
        "which take up to a quarter of this machine's memory",
        folded_, 2 * most_folded());
  return results;
}

void OnnxWalk::run(const OnnxNode& node, const std::set<std::string>& needed) {
  try {
    const OnnxValues results = results_of(node, needed);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      if (name.empty() || !needed.contains(name)) continue;
      check(i < results.size(), "something takes its output '{}': expected only its first {}", name,
            counted(std::ssize(results), "output"));
      add(name, results[i]);
    }
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    const std::string why = error.what();
    if (why.starts_with("[onnx]")) throw;
    fail("[onnx] {}: {}", node.words(), why);
  }
}

}  // namespace accrue
