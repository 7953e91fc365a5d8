#include "tests/fuzz/small_networks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace accrue::fuzz {
namespace {

using test::OnnxBytes;
using Attribute = OnnxBytes::Attribute;
using Attributes = std::vector<std::pair<std::string, Attribute>>;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

// A network in the making.
struct Making : SmallNetwork {
  explicit Making(int64_t with_opset) { opset = with_opset; }

  std::string weight(const Ints& sizes) {
    const int64_t count =
        std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(0.5 + 0.4 * std::sin(double(i)));
    return tensor(sizes, OnnxBytes::f32, numbers);
  }
  std::string tensor(const Ints& sizes, int64_t type, const std::vector<double>& numbers) {
    tensors.push_back({"t" + std::to_string(tensors.size()), sizes, type, numbers});
    return tensors.back().name;
  }
  std::string number(double number) { return tensor({}, OnnxBytes::f32, {number}); }
  std::string ints(const std::vector<double>& numbers) {
    return tensor({std::ssize(numbers)}, OnnxBytes::i64, numbers);
  }
  std::string node(const std::string& op, const Names& inputs, const Attributes& attributes = {},
                   size_t results = 1) {
    Names names;
    for (size_t i = 0; i < results; ++i)
      names.push_back("v" + std::to_string(nodes.size()) + (i ? "_" + std::to_string(i) : ""));
    nodes.push_back({op, inputs, names, attributes});
    return names.front();
  }
};

const Attribute one = int64_t{1}, zero = int64_t{0};

// [N, ...] by a shape that the file calculates.
std::string flattened(Making& m, const std::string& x, double rest) {
  const std::string samples =
      m.node("Gather", {m.node("Shape", {x}), m.ints({0})}, {{"axis", zero}});
  return m.node("Reshape", {x, m.node("Concat", {samples, m.ints({rest})}, {{"axis", zero}})});
}

SmallNetwork convolutions() {
  Making m(17);
  m.inputs = {{"x", {"N", 2, 8, 8}}};
  std::string x = m.node("Conv", {"x", m.weight({4, 2, 3, 3}), m.weight({4})},
                         {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1}}});
  x = m.node("BatchNormalization", {x, m.weight({4}), m.weight({4}), m.weight({4}), m.weight({4})},
             {{"training_mode", one}}, 3);
  x = m.node("MaxPool", {m.node("Relu", {x})},
             {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = m.node("Clip", {m.node("Pad", {x, m.ints({0, 0, 1, 1, 0, 0, 1, 1})}), m.number(0), "v1"});
  m.nodes.back().inputs.pop_back();
  const std::string pooled =
      m.node("AveragePool", {x}, {{"kernel_shape", Ints{2, 2}}, {"count_include_pad", one}});
  const std::string large = m.node("Resize", {pooled, "", m.tensor({4}, 1, {1, 1, 2, 2})},
                                   {{"mode", std::string("nearest")}});
  x = m.node("ConvTranspose", {large, m.weight({4, 3, 2, 2})}, {{"strides", Ints{2, 2}}});
  x = m.node("InstanceNormalization", {x, m.weight({3}), m.weight({3})}, {{"epsilon", 1e-5f}});
  x = m.node("Concat", {x, m.node("LRN", {x}, {{"size", int64_t{3}}})}, {{"axis", one}});
  x = m.node("GlobalAveragePool", {x});
  x = m.node("Gemm", {flattened(m, x, 6), m.weight({5, 6}), m.weight({5})}, {{"transB", one}});
  m.outputs = {{m.node("Softmax", {x}, {{"axis", one}}), {"N", 5}}};
  return m;
}

std::string layer_norm(Making& m, const std::string& x, int64_t size) {
  const std::string d = m.node("Sub", {x, m.node("ReduceMean", {x}, {{"axes", Ints{-1}}})});
  const std::string variance =
      m.node("ReduceMean", {m.node("Pow", {d, m.number(2)})}, {{"axes", Ints{-1}}});
  const std::string root = m.node("Sqrt", {m.node("Add", {variance, m.number(1e-5)})});
  const std::string y = m.node("Mul", {m.node("Div", {d, root}), m.weight({size})});
  return m.node("Add", {y, m.weight({size})});
}

std::string heads(Making& m, const std::string& x, const Ints& perm) {
  const std::string product =
      m.node("Add", {m.node("MatMul", {x, m.weight({8, 8})}), m.weight({8})});
  return m.node("Transpose", {m.node("Reshape", {product, m.ints({0, 5, 2, 4})})},
                {{"perm", perm}});
}

SmallNetwork attention() {
  Making m(17);
  m.inputs = {{"tokens", {"N", 5}, OnnxBytes::i64}, {"seen", {"N", 5}, OnnxBytes::boolean}};
  std::string x = m.node("Gather", {m.weight({7, 8}), "tokens"});
  x = m.node("Add", {x, m.weight({1, 5, 8})});
  const std::string h = layer_norm(m, x, 8);
  const std::string scores = m.node(
      "Div",
      {m.node("MatMul", {heads(m, h, {0, 2, 1, 3}), heads(m, h, {0, 2, 3, 1})}), m.number(2)});
  const std::string mask = m.node("Unsqueeze", {"seen", m.ints({1, 2})});
  const std::string masked = m.node("Where", {mask, scores, m.number(-1e9)});
  const std::string p = m.node("Softmax", {masked}, {{"axis", int64_t{-1}}});
  std::string y = m.node("MatMul", {p, heads(m, h, {0, 2, 1, 3})});
  y = m.node("Reshape",
             {m.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}), m.ints({-1, 5, 8})});
  x = m.node("Add", {x, y});
  const std::string erf = m.node("Erf", {m.node("Div", {x, m.number(std::sqrt(2.0))})});
  y = m.node("Mul", {m.node("Mul", {x, m.node("Add", {erf, m.number(1)})}), m.number(0.5)});
  y = m.node("LayerNormalization", {y, m.weight({8}), m.weight({8})});
  m.outputs = {
      {m.node("MatMul", {y, m.node("Transpose", {"t0"}, {{"perm", Ints{1, 0}}})}), {"N", 5, 7}}};
  return m;
}

SmallNetwork recurrent() {
  Making m(14);
  m.inputs = {{"x", {"N", 4, 3}}};
  std::string x = m.node("Transpose", {"x"}, {{"perm", Ints{1, 0, 2}}});
  x = m.node("LSTM", {x, m.weight({2, 20, 3}), m.weight({2, 20, 5}), m.weight({2, 40})},
             {{"hidden_size", int64_t{5}}, {"direction", std::string("bidirectional")}}, 3);
  x = m.node("Reshape",
             {m.node("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3}}}), m.ints({0, -1, 10})});
  x = m.node("GRU", {x, m.weight({1, 9, 10}), m.weight({1, 9, 3})}, {{"hidden_size", int64_t{3}}},
             2);
  x = m.node("Squeeze", {x, m.ints({1})});
  x = m.node("Slice", {x, m.ints({-1}), m.ints({2147483647}), m.ints({0})});
  m.outputs = {{m.node("Squeeze", {x, m.ints({0})}), {"N", 3}}};
  return m;
}

SmallNetwork pointwise() {
  Making m(13);
  m.inputs = {{"x", {"N", 6, 4}}};
  std::string x = m.node("PRelu", {"x", m.weight({4})});
  const std::string low = m.node("Less", {x, m.number(0.5)});
  x = m.node("Where", {low, x, m.node("Mul", {x, m.node("Sigmoid", {x})})});
  m.node("Split", {x, m.ints({2, 4})}, {{"axis", one}}, 2);
  x = m.node("Concat", {m.nodes.back().outputs[1], m.nodes.back().outputs[0]}, {{"axis", one}});
  const std::string range =
      m.node("Range", {m.tensor({}, 7, {0}), m.tensor({}, 7, {4}), m.tensor({}, 7, {1})});
  x = m.node("Add", {x, m.node("Cast", {range}, {{"to", one}})});
  x = m.node("Einsum", {x, m.weight({4, 3})}, {{"equation", std::string("nij,jk->nik")}});
  const std::string sizes = m.node("Shape", {x});
  x = m.node("Add", {x, m.node("Expand", {m.weight({1, 1, 3}), sizes})});
  const std::string drawn = m.node("RandomUniformLike", {m.node("ConstantOfShape", {sizes})});
  const std::string noise =
      m.node("Cast", {m.node("Less", {drawn, m.number(0.75)})}, {{"to", one}});
  x = m.node("Mul", {x, m.node("Div", {noise, m.number(0.75)})});
  x = m.node("Dropout", {x, m.number(0.1), m.tensor({}, OnnxBytes::boolean, {1})});
  x = m.node("CumSum", {x, m.tensor({}, 7, {1})});
  const std::string tiled = m.node("Tile", {x, m.ints({1, 1, 2})});
  const std::string top = m.node("ReduceMax", {tiled}, {{"axes", Ints{2}}, {"keepdims", zero}});
  m.outputs = {{m.node("Flatten", {m.node("HardSigmoid", {top}, {{"alpha", 0.2f}})}), {"N", 6}},
               {m.node("ReduceSum", {x, m.ints({1, 2})}, {{"keepdims", zero}}), {"N"}}};
  return m;
}

// A file of an older opset, with its batch fixed.
SmallNetwork older() {
  Making m(9);
  m.inputs = {{"x", {1, 4, 6, 6}}};
  const std::string filter = m.node("ConstantOfShape", {m.ints({4, 2, 3, 3})});
  std::string x =
      m.node("Conv", {"x", filter}, {{"group", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}});
  const std::string scale = m.node("Unsqueeze", {m.weight({4})}, {{"axes", Ints{1, 2}}});
  x = m.node("Sum", {m.node("Mul", {x, scale}), "x"});
  x = m.node("Reshape", {x, m.ints({1, 2, 2, 6, 6})});
  x = m.node("Reshape",
             {m.node("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3, 4}}}), m.ints({1, 4, 6, 6})});
  x = m.node("Slice", {x}, {{"starts", Ints{1}}, {"ends", Ints{5}}, {"axes", Ints{2}}});
  x = m.node("Upsample", {x, m.tensor({4}, 1, {1, 1, 2, 2})}, {{"mode", std::string("linear")}});
  x = m.node("DepthToSpace", {x}, {{"blocksize", int64_t{2}}});
  x = m.node("Dropout", {m.node("Reshape", {x, m.ints({1, -1})})}, {{"ratio", 0.5f}});
  x = m.node("Gemm", {x, m.weight({384, 3}), m.weight({3})});
  m.outputs = {{m.node("Softmax", {x}), {1, 3}}};
  return m;
}

std::string elements_of(const SmallNetwork::Tensor& tensor) {
  std::string bytes;
  const auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const auto whole = [](double number) {
    return std::isfinite(number) ? int64_t(std::clamp(number, -0x1p62, 0x1p62)) : 0;
  };
  for (const double number : tensor.numbers) switch (tensor.type) {
      case OnnxBytes::f64: append(number); break;
      case OnnxBytes::i64: append(whole(number)); break;
      case OnnxBytes::f16: append(uint16_t(0x3c00)); break;
      case OnnxBytes::boolean: append(uint8_t(number != 0)); break;
      case 2: append(uint8_t(whole(number) & 255)); break;
      case 6: append(int32_t(whole(number) & INT32_MAX)); break;
      default: append(float(number));
    }
  return bytes;
}

}  // namespace

std::string SmallNetwork::bytes() const {
  OnnxBytes file;
  file.opset = opset;
  for (const Node& each : nodes)
    file.node(each.op, each.inputs, each.outputs, each.attributes, each.domain);
  for (const Tensor& each : tensors) file.raw(each.name, each.sizes, each.type, elements_of(each));
  for (const Value& each : inputs) file.input(each.name, each.sizes, each.type);
  for (const Value& each : outputs) file.output(each.name, each.sizes, each.type);
  for (const Value& each : known) file.known(each.name, each.sizes, each.type);
  return file.file();
}

const std::vector<SmallNetwork>& small_networks() {
  static const std::vector<SmallNetwork> all{convolutions(), attention(), recurrent(), pointwise(),
                                             older()};
  return all;
}

}  // namespace accrue::fuzz
