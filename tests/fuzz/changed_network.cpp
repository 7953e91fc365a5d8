#include <algorithm>
#include <limits>

#include "tests/fuzz/small_networks.h"

namespace accrue::fuzz {
namespace {

using test::OnnxBytes;
using Attribute = OnnxBytes::Attribute;

class Changes {
 public:
  Changes(SmallNetwork& net, RandomStream& random) : net_(net), random_(random) {}

  void change() {
    using Change = void (Changes::*)();
    static constexpr Change all[]{
        &Changes::remove_node,      &Changes::double_node,     &Changes::move_node,
        &Changes::change_op,        &Changes::permute_inputs,  &Changes::change_input,
        &Changes::change_count,     &Changes::change_integer,  &Changes::change_integer,
        &Changes::change_kind,      &Changes::take_attributes, &Changes::change_sizes,
        &Changes::change_type,      &Changes::change_elements, &Changes::change_elements,
        &Changes::change_interface, &Changes::change_output,   &Changes::change_opset,
        &Changes::claim_sizes};
    (this->*all[below(std::size(all))])();
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_.below(uint32_t(n)); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  T& any(std::vector<T>& all) {
    return all[below(all.size())];
  }

  // Mostly small; others are beyond any memory, or at the edges of their type.
  int64_t integer() {
    static constexpr int64_t edges[]{int64_t{1} << 40,
                                     -(int64_t{1} << 40),
                                     int64_t{1} << 62,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int32_t>::max(),
                                     std::numeric_limits<int32_t>::min()};
    return one_in(4) ? edges[below(std::size(edges))] : int64_t(below(12)) - 3;
  }
  int64_t type() {
    static constexpr int64_t types[]{1, 1, 7, 7, 6, 9, 10, 11, 2, 3, 16, 8, 0, 99};
    return types[below(std::size(types))];
  }
  std::string any_value() {
    const size_t of = below(net_.tensors.size() + net_.inputs.size() + net_.nodes.size());
    if (of < net_.tensors.size()) return net_.tensors[of].name;
    if (of < net_.tensors.size() + net_.inputs.size())
      return net_.inputs[of - net_.tensors.size()].name;
    return any(any(net_.nodes).outputs);
  }

  // Nodes that took the result take one of the inputs.
  void remove_node() {
    if (net_.nodes.size() < 2) return;
    const size_t at = below(net_.nodes.size());
    const SmallNetwork::Node gone = net_.nodes[at];
    net_.nodes.erase(net_.nodes.begin() + ptrdiff_t(at));
    if (gone.inputs.empty()) return;
    const std::string by = gone.inputs[one_in(4) ? below(gone.inputs.size()) : 0];
    rename(gone.outputs.front(), by);
  }
  void rename(const std::string& from, const std::string& to) {
    for (SmallNetwork::Node& node : net_.nodes) std::ranges::replace(node.inputs, from, to);
    for (SmallNetwork::Value& output : net_.outputs)
      if (output.name == from) output.name = to;
  }
  // A copy works on the result, or on an input again.
  void double_node() {
    const size_t at = below(net_.nodes.size());
    SmallNetwork::Node copy = net_.nodes[at];
    const std::string before = copy.outputs.front();
    for (std::string& output : copy.outputs) output = "c" + std::to_string(names_++) + output;
    rename(before, copy.outputs.front());
    if (!copy.inputs.empty()) any(copy.inputs) = before;
    net_.nodes.insert(net_.nodes.begin() + ptrdiff_t(at) + 1, copy);
  }
  void move_node() { std::swap(any(net_.nodes), any(net_.nodes)); }
  void change_op() {
    static const std::vector<std::string> ops{"Abs",
                                              "Add",
                                              "And",
                                              "ArgMax",
                                              "AveragePool",
                                              "BatchNormalization",
                                              "Cast",
                                              "CastLike",
                                              "Celu",
                                              "Clip",
                                              "Concat",
                                              "Constant",
                                              "ConstantOfShape",
                                              "Conv",
                                              "ConvTranspose",
                                              "CumSum",
                                              "DepthToSpace",
                                              "Div",
                                              "Dropout",
                                              "Einsum",
                                              "Equal",
                                              "Erf",
                                              "Exp",
                                              "Expand",
                                              "EyeLike",
                                              "Flatten",
                                              "Floor",
                                              "GRU",
                                              "Gather",
                                              "GatherElements",
                                              "GatherND",
                                              "Gelu",
                                              "Gemm",
                                              "GlobalAveragePool",
                                              "GlobalLpPool",
                                              "GlobalMaxPool",
                                              "GroupNormalization",
                                              "HardSigmoid",
                                              "HardSwish",
                                              "Identity",
                                              "If",
                                              "InstanceNormalization",
                                              "IsInf",
                                              "LRN",
                                              "LSTM",
                                              "LayerNormalization",
                                              "LeakyRelu",
                                              "Less",
                                              "LogSoftmax",
                                              "Loop",
                                              "LpNormalization",
                                              "LpPool",
                                              "MatMul",
                                              "MatMulInteger",
                                              "Max",
                                              "MaxPool",
                                              "Mean",
                                              "MeanVarianceNormalization",
                                              "Min",
                                              "Mish",
                                              "Mod",
                                              "Mul",
                                              "NonZero",
                                              "Not",
                                              "OneHot",
                                              "PRelu",
                                              "Pad",
                                              "Pow",
                                              "QuantizeLinear",
                                              "RMSNormalization",
                                              "RNN",
                                              "RandomNormal",
                                              "RandomUniformLike",
                                              "Range",
                                              "ReduceL2",
                                              "ReduceLogSumExp",
                                              "ReduceMax",
                                              "ReduceMean",
                                              "ReduceProd",
                                              "ReduceSum",
                                              "Reshape",
                                              "Resize",
                                              "ScatterND",
                                              "SequenceAt",
                                              "Shape",
                                              "Shrink",
                                              "Sigmoid",
                                              "Sign",
                                              "Size",
                                              "Slice",
                                              "Softmax",
                                              "SpaceToDepth",
                                              "Split",
                                              "SplitToSequence",
                                              "Sqrt",
                                              "Squeeze",
                                              "Sub",
                                              "Sum",
                                              "Tanh",
                                              "Tile",
                                              "TopK",
                                              "Transpose",
                                              "Trilu",
                                              "Unsqueeze",
                                              "Upsample",
                                              "Where",
                                              "Xor"};
    any(net_.nodes).op = ops[below(ops.size())];
  }
  void permute_inputs() {
    auto& inputs = any(net_.nodes).inputs;
    if (inputs.size() > 1) std::swap(any(inputs), any(inputs));
  }
  void change_input() {
    auto& inputs = any(net_.nodes).inputs;
    if (!inputs.empty()) any(inputs) = one_in(5) ? "" : any_value();
  }
  // Adds or removes an input or an output.
  void change_count() {
    SmallNetwork::Node& node = any(net_.nodes);
    if (one_in(3)) node.outputs.push_back(one_in(2) ? "" : "n" + std::to_string(names_++));
    else if (one_in(3) && node.outputs.size() > 1) node.outputs.pop_back();
    else if (one_in(2)) node.inputs.push_back(any_value());
    else if (!node.inputs.empty()) node.inputs.pop_back();
  }

  std::pair<std::string, Attribute>* any_attribute() {
    for (int tries = 0; tries < 8; ++tries)
      if (auto& all = any(net_.nodes).attributes; !all.empty()) return &any(all);
    return nullptr;
  }
  void change_integers(std::vector<int64_t>& all) {
    if (all.empty() || one_in(4)) all.push_back(integer());
    else if (one_in(4)) all.pop_back();
    else any(all) = integer();
  }
  void change_integer() {
    auto* const attribute = any_attribute();
    if (!attribute) return;
    if (auto* const all = std::get_if<std::vector<int64_t>>(&attribute->second))
      return change_integers(*all);
    if (auto* const number = std::get_if<int64_t>(&attribute->second)) *number = integer();
    if (auto* const number = std::get_if<float>(&attribute->second)) *number = float(real());
    if (auto* const text = std::get_if<std::string>(&attribute->second)) *text = any_text();
  }
  std::string any_text() {
    static const std::vector<std::string> texts{"",
                                                "linear",
                                                "cubic",
                                                "nearest",
                                                "reverse",
                                                "bidirectional",
                                                "constant",
                                                "edge",
                                                "reflect",
                                                "SAME_UPPER",
                                                "VALID",
                                                "ij->ji",
                                                "...ij,jk->...ik",
                                                "ii->i",
                                                "nij->",
                                                ",",
                                                "->",
                                                "nij,nij,nij->n",
                                                "\xff"};
    return texts[below(texts.size())];
  }
  void change_kind() {
    auto* const attribute = any_attribute();
    if (!attribute) return;
    switch (below(4)) {
      case 0: attribute->second = integer(); break;
      case 1: attribute->second = float(real()); break;
      case 2: attribute->second = any_text(); break;
      default: attribute->second = std::vector<int64_t>{integer(), integer()};
    }
  }
  void take_attributes() {
    SmallNetwork::Node& node = any(net_.nodes);
    if (one_in(3)) node.attributes.clear();
    else if (auto* const other = any_attribute()) node.attributes.push_back(*other);
  }

  double real() {
    static constexpr double numbers[]{0,
                                      -1,
                                      0.5,
                                      1,
                                      1e-30,
                                      1e30,
                                      -1e30,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
    return one_in(2) ? numbers[below(std::size(numbers))] : double(integer());
  }
  // The elements follow, as far as that is possible, or do not.
  void change_sizes() {
    SmallNetwork::Tensor& tensor = any(net_.tensors);
    if (one_in(3) && tensor.sizes.size() > 1) std::swap(any(tensor.sizes), any(tensor.sizes));
    else change_integers(tensor.sizes);
    int64_t elements = 1;
    for (const int64_t size : tensor.sizes) {
      if (size < 0 || size > 4096) return;
      elements *= size;
      if (elements > 4096) return;
    }
    if (!one_in(8)) tensor.numbers.resize(size_t(elements), 1);
  }
  void change_type() { any(net_.tensors).type = type(); }
  void change_elements() {
    SmallNetwork::Tensor& tensor = any(net_.tensors);
    if (!tensor.numbers.empty())
      any(tensor.numbers) = tensor.type == OnnxBytes::i64 ? double(integer()) : real();
  }
  void change_sizes_of(SmallNetwork::Value& value) {
    if (one_in(4)) value.type = type();
    else if (value.sizes.empty() || one_in(6)) value.sizes.emplace_back(integer());
    else if (one_in(6)) value.sizes.pop_back();
    else if (one_in(3)) any(value.sizes) = "free";
    else any(value.sizes) = integer();
  }
  void change_interface() {
    change_sizes_of(one_in(2) || net_.outputs.empty() ? any(net_.inputs) : any(net_.outputs));
  }
  void change_output() {
    if (one_in(2)) net_.outputs.push_back({any_value(), {"N"}});
    else any(net_.outputs).name = any_value();
  }
  void change_opset() { net_.opset = 6 + int64_t(below(18)); }
  void claim_sizes() {
    SmallNetwork::Value value{any_value(), {"N", int64_t(below(9))}};
    if (one_in(2)) change_sizes_of(value);
    net_.known.push_back(value);
  }

  SmallNetwork& net_;
  RandomStream& random_;
  int names_ = 0;
};

}  // namespace

SmallNetwork changed_network(RandomStream& random) {
  const std::vector<SmallNetwork>& all = small_networks();
  SmallNetwork net = all[random.below(uint32_t(all.size()))];
  Changes changes(net, random);
  for (uint32_t i = 1 + random.below(4); i-- > 0;) changes.change();
  return net;
}

}  // namespace accrue::fuzz
