// The contents of ONNX files. The tests in python/tests/judges compare their results.

#include <cstring>
#include <set>

#include "core/inside.h"
#include "kernels/elementwise.h"
#include "kernels/losses.h"
#include "kernels/pointwise.h"
#include "kernels/rearrange.h"
#include "kernels/resize.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "onnx/writer/network_file.h"
#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// The fields of a protobuf message that hold messages, texts or bytes, by their numbers.
std::multimap<uint64_t, std::string> fields_of(const std::string& message) {
  std::multimap<uint64_t, std::string> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(message.at(at++));
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint(), wire = key & 7;
    if (wire == 0) fields.emplace(key >> 3, std::to_string(varint()));
    else if (wire == 5) at += 4;
    else {
      REQUIRE(wire == 2);
      const size_t size = varint();
      REQUIRE(size <= message.size() - at);
      fields.emplace(key >> 3, message.substr(at, size));
      at += size;
    }
  }
  return fields;
}

std::vector<std::string> all_of(const std::multimap<uint64_t, std::string>& fields,
                                uint64_t number) {
  std::vector<std::string> all;
  for (auto [field, end] = fields.equal_range(number); field != end; ++field)
    all.push_back(field->second);
  return all;
}

struct OnnxFile {
  std::vector<std::string> operators;
  std::map<std::string, size_t> constants;  // bytes of the initializers, by their names
  std::multimap<uint64_t, std::string> graph, model;
};

OnnxFile read_onnx(const std::string& bytes) {
  OnnxFile file;
  file.model = fields_of(bytes);
  file.graph = fields_of(all_of(file.model, 7).at(0));
  for (const std::string& node : all_of(file.graph, 1))
    file.operators.push_back(all_of(fields_of(node), 4).at(0));
  for (const std::string& tensor : all_of(file.graph, 5)) {
    const auto fields = fields_of(tensor);
    file.constants[all_of(fields, 8).at(0)] = all_of(fields, 9).at(0).size();
  }
  return file;
}

// The file of y = answer(x), for x [N, ...] where `one` has N = 1.
std::string file_of(const Shape& one, const std::function<Tensor(const Tensor& x)>& answer,
                    const Parameters& parameters = {{}, {}, DType::f32, Device::cpu}) {
  const auto example = [&](int64_t N) {
    const Tensor x = Tensor::full(one.with(0, N), 1, DType::f32, Device::cpu);
    return Example{.inputs = {{"x", x}}, .answer_names = {"y"}, .answers = [&answer, x] {
                     return std::vector{answer(x)};
                   }};
  };
  return onnx_of(example, parameters);
}

bool without_protobuf() {
  try {
    file_of({2, 4}, [](const Tensor& x) { return relu(x); });
    return false;
  } catch (const Error& error) {
    REQUIRE_THAT(error.what(), ContainsSubstring("libprotobuf-dev"));
    WARN("built without protobuf: no ONNX file to be read");
    return true;
  }
}

std::string file_of(Graph& net, const Shape& sample) {
  const Parameters parameters = place(net, DType::f32, Device::cpu, 1);
  return onnx_of(net, {{"x", sample}}, {"y"}, parameters);
}

}  // namespace

TEST_CASE("a trained network is exported as an ONNX file", "[cli]") {
  if (without_protobuf()) return;
  const Folder folder;
  write_idx_data(folder);
  const std::string weights = folder / "w.safetensors", out = folder / "w.onnx";
  succeed("train --model cnn-bn --micro-batch 4 --steps 2 --mean 0.25 --std 0.5 --data " +
          folder.path().string() + " --save " + weights);
  const std::string exported = "export --weights " + weights + " --out " + out;
  REQUIRE_THAT(succeed(exported), ContainsSubstring("logits of images f32 [batch, 1, 28, 28]"));
  const OnnxFile numbers = read_onnx(file_bytes(out));
  using Names = std::vector<std::string>;
  const Names network{"Conv",    "BatchNormalization",
                      "MaxPool", "Relu",
                      "Conv",    "BatchNormalization",
                      "MaxPool", "Relu",
                      "Reshape", "Gemm",
                      "Relu",    "Gemm",
                      "Identity"};
  REQUIRE(numbers.operators == network);
  size_t found = 0;
  for (const auto& [name, tensor] : read_safetensors(weights)) {
    REQUIRE(numbers.constants.at(name) == tensor.bytes());
    ++found;
  }
  REQUIRE(numbers.constants.size() == found + 1);  // and the shape of Reshape
  const auto said = all_of(numbers.model, 14);
  REQUIRE(said.size() == read_safetensors_metadata(weights).size());

  REQUIRE_THAT(succeed(exported + " --bytes"), ContainsSubstring("images u8 [batch, 1, 28, 28]"));
  Names with_bytes{"Cast", "Div", "Sub", "Mul"};
  with_bytes.insert(with_bytes.end(), network.begin(), network.end());
  REQUIRE(read_onnx(file_bytes(out)).operators == with_bytes);

  refuse("export --weights " + weights, "--out");
  refuse("export --out " + out, "--weights");
  refuse("export --weights " + weights + " --out " + weights, "would replace");
  refuse(exported + " --image-size 32", "does not fit the model");
  write_safetensors(folder / "bare", read_safetensors(weights), {{"model", "cnn-bn"}});
  refuse("export --weights " + (folder / "bare") + " --out " + out,
         "does not say the sizes of its network's samples and answers");
}

TEST_CASE("a graph is exported as an ONNX file", "[onnx]") {
  if (without_protobuf()) return;
  Graph net;
  const auto conv = [&](Graph::Value in, std::string name) {
    return net.call(std::make_unique<Conv2d>(4, 4, 3, Conv2dShape{.padding = 1}), in, name);
  };
  const Graph::Value h = net.call("relu", {conv(net.input(), "stem")});
  Graph::Value y = net.call("add", {conv(h, "body"), h});
  y = net.call("cat",
               {net.call("max_pool2d", {y}, {{"kernel_size", 2}}),
                net.call("avg_pool2d", {y}, {{"kernel_size", 2}})},
               {{"dim", 1}});
  y = net.call("adaptive_avg_pool2d", {y}, {{"output_size", 1}});
  y = net.call("flatten", {y}, {{"start_dim", 1}});
  net.output(net.call(std::make_unique<Linear>(8, 3), y, "head"));
  const OnnxFile file = read_onnx(file_of(net, {4, 8, 8}));
  REQUIRE(file.operators == std::vector<std::string>{"Conv", "Relu", "Conv", "Add", "MaxPool",
                                                     "AveragePool", "Concat", "GlobalAveragePool",
                                                     "Reshape", "Gemm", "Identity"});
  for (const char* name : {"stem.weight", "body.bias", "head.weight"})
    REQUIRE(file.constants.contains(name));
}

TEST_CASE("what has no counterpart in ONNX is refused by its name", "[onnx]") {
  if (without_protobuf()) return;
  const auto refusal = [](const std::function<Tensor(const Tensor&)>& answer) {
    try {
      file_of({1, 4}, answer);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(refusal([](const Tensor& x) { return relu(x); }).empty());
  REQUIRE_THAT(refusal([](const Tensor& x) { return mse_loss(x, x); }),
               ContainsSubstring("the kernel loss"));
  REQUIRE_THAT(refusal([](const Tensor& x) { return flip(x, {1}); }),
               ContainsSubstring("where a Graph calls the op"));
  for (const int64_t row : {0, 1})
    REQUIRE_THAT(refusal([row](const Tensor& x) { return relu(x.slice(row, row + 1)); }),
                 ContainsSubstring("part [1, 4] of a tensor ["));
  REQUIRE_THAT(refusal([](const Tensor& x) { return x.size(0) == 2 ? relu(x) : relu(relu(x)); }),
               ContainsSubstring("runs 2 samples by other steps than 3"));
}

TEST_CASE("an ONNX file resizes as the network does", "[onnx]") {
  if (without_protobuf()) return;
  const auto resized = [](int64_t H, int64_t W, ResizeMode mode, Coordinates coordinates) {
    return file_of({1, 3, 5, 4},
                   [=](const Tensor& x) { return resize(x, H, W, mode, coordinates); });
  };
  using enum ResizeMode;
  using Names = std::vector<std::string>;
  for (const auto mode : {nearest, nearest_exact, bilinear, bicubic})
    REQUIRE(read_onnx(resized(7, 9, mode, Coordinates::half_pixel)).operators ==
            Names{"Resize", "Identity"});
  REQUIRE_THAT(resized(7, 9, bicubic, Coordinates::align_corners),
               ContainsSubstring("align_corners"));
  // 41 * (1 / 41) is less than 1 in float32, where PyTorch picks other pixels than ONNX.
  REQUIRE(read_onnx(resized(5 * 41, 4, nearest, Coordinates::half_pixel)).operators ==
          Names{"Gather", "Gather", "Identity"});
}

// Calls of ops on x [N, 4, 6, 8], and the operators that they become, without the answer's
// Identity.
TEST_CASE("every op of a graph is written to an ONNX file", "[onnx]") {
  if (without_protobuf()) return;
  using Value = Graph::Value;
  using Attributes = Graph::Attributes;
  using Names = std::vector<std::string>;
  struct Case {
    std::string op;
    Attributes attributes;
    Names operators;
  };
  const Integers both{2, 3};
  const std::vector<Case> cases{
      // Formulas, the ones that are no single operator.
      {"log1p", {}, {"Add", "Div", "Atanh", "Mul", "Add", "Log", "Abs", "Less", "Where"}},
      {"expm1", {}, {"Mul", "Sinh", "Exp", "Mul", "Mul", "Exp", "Sub", "Abs", "Less", "Where"}},
      {"rsqrt", {}, {"Sqrt", "Reciprocal"}},
      {"square", {}, {"Mul"}},
      {"mish", {}, {"Softplus", "Tanh", "Mul"}},
      {"log_sigmoid", {}, {"Neg", "Softplus", "Neg"}},
      {"logsigmoid", {}, {"Neg", "Softplus", "Neg"}},
      {"threshold", {}, {"LessOrEqual", "Where"}},
      {"shrink", {}, {"Shrink", "IsNaN", "Where"}},
      {"softplus",
       {{"beta", 2.0}, {"threshold", 1.0}},
       {"Mul", "Softplus", "Div", "Greater", "Where"}},
      {"rsub", {}, {"Sub"}},
      {"rdiv", {}, {"Div"}},
      {"is_nan", {}, {"IsNaN", "Cast"}},
      {"logical_not", {}, {"Cast", "Not", "Cast"}},
      {"not_equal", {}, {"Equal", "Not", "Cast"}},
      {"logical_and", {}, {"Cast", "Cast", "And", "Cast"}},
      {"less", {}, {"Less", "Cast"}},
      {"where", {}, {"Cast", "Where"}},
      {"clamp", {{"min", 0.0}}, {"Max"}},
      {"clamp", {{"min", 0.0}, {"max", 1.0}}, {"Clip"}},
      {"hardswish", {}, {"HardSwish"}},
      {"hardsigmoid", {}, {"HardSigmoid"}},
      // Moved data
      {"reshape", {{"shape", Integers{-1, 24, 8}}}, {"Reshape"}},
      {"permute", {{"dims", Integers{0, 3, 1, 2}}}, {"Transpose"}},
      {"transpose", {{"dim0", 1}, {"dim1", -1}}, {"Transpose"}},
      {"slice", {{"dim", 3}, {"start", -1}, {"end", 0}, {"step", -2}}, {"Slice"}},
      {"split", {{"split_size_or_sections", 8}, {"dim", -1}}, {}},
      {"chunk", {{"chunks", 1}, {"dim", 1}}, {}},
      {"stack", {{"dim", -1}}, {"Unsqueeze", "Concat"}},
      {"pad", {{"pad", Integers{1, 2}}, {"mode", std::string("reflect")}}, {"Pad"}},
      {"pad",
       {{"pad", Integers{1, 2, 0, 1}}, {"mode", std::string("circular")}},
       {"Gather", "Gather"}},
      {"roll", {{"shifts", 3}, {"dims", 0}}, {"Shape", "Gather", "Add", "Range", "Mod", "Gather"}},
      {"flip", {{"dims", both}}, {"Slice"}},
      {"expand", {{"size", Integers{2, -1, -1, -1, -1}}}, {"Shape", "Gather", "Concat", "Expand"}},
      {"tile", {{"dims", Integers{2, 1}}}, {"Tile"}},
      // Reductions
      {"sum", {{"dim", both}}, {"ReduceSum"}},
      {"mean", {{"dim", both}}, {"ReduceMean"}},
      {"amax", {{"dim", both}}, {"ReduceMax"}},
      {"amin", {{"dim", both}}, {"ReduceMin"}},
      {"var", {{"dim", both}}, {"ReduceMean", "Sub", "Mul", "ReduceSum", "Div"}},
      {"var",
       {{"dim", 0}},
       {"ReduceMean", "Sub", "Mul", "ReduceSum", "Shape", "Gather", "ReduceProd", "Cast", "Sub",
        "Max", "Div"}},
      {"argmax", {{"dim", 1}}, {"ArgMax", "Cast"}},
      {"argmin", {{"dim", 1}}, {"ArgMin", "Cast"}},
      {"cumsum", {{"dim", 2}}, {"CumSum"}},
      {"softmax", {{"dim", 1}}, {"Softmax"}},
      {"log_softmax", {{"dim", 1}}, {"LogSoftmax"}},
  };
  std::set<std::string> seen;
  for (const auto& [op, attributes, operators] : cases) {
    INFO(op);
    seen.insert(op);
    Graph net;
    const Value x = net.input();
    size_t n = 0;
    for (const GraphOp::Argument* each : graph_op(op).operands()) n += each->is_required ? 1 : 0;
    net.output(net.call(op, std::vector<Value>(n, x), attributes));
    Names wanted = operators;
    wanted.emplace_back("Identity");
    CHECK(read_onnx(file_of(net, {4, 6, 8})).operators == wanted);
  }
  // The other formulas.
  for (const FormulaInfo& info : all_formulas()) {
    if (seen.contains(std::string(info.name))) continue;
    INFO(info.name);
    Graph net;
    const Value x = net.input();
    net.output(net.call(info.name, std::vector<Value>(size_t(info.operands), x)));
    const Names found = read_onnx(file_of(net, {4, 6, 8})).operators;
    CHECK((info.onnx.empty() || std::ranges::find(found, info.onnx) != found.end()));
  }
}

TEST_CASE("an ONNX file leaves the number of samples free in any dimension", "[onnx]") {
  if (without_protobuf()) return;
  using Names = std::vector<std::string>;
  Graph net;
  const Graph::Value x = net.input();
  // [T, N, D] through layers that take rows
  const Graph::Value t = net.call("permute", {x}, {{"dims", Integers{1, 0, 2}}});
  auto rows = std::make_unique<Sequential>();
  rows->add<Linear>(4, 6);
  rows->add<Relu>();
  const Graph::Value h = net.call(std::move(rows), t, "rows");
  // and [3 N, 12]
  const Extents more{Extent::of_samples(3), Extent(-1)};
  net.output(net.call("reshape", {net.call("exp", {h})}, {{"shape", more}}));
  const std::string bytes = file_of(net, {6, 4});
  const OnnxFile file = read_onnx(bytes);
  REQUIRE(file.operators ==
          Names{"Transpose", "Reshape", "Gemm", "Reshape", "Relu", "Exp", "Reshape", "Identity"});
  for (const auto& [number, tensor] : file.graph) {
    if (number != 5) continue;
    const auto fields = fields_of(tensor);
    if (!all_of(fields, 8).at(0).starts_with("constant")) continue;
    const std::string raw = all_of(fields, 9).at(0);
    std::vector<int64_t> shape(raw.size() / sizeof(int64_t));
    std::memcpy(shape.data(), raw.data(), raw.size());
    CHECK(std::ranges::find(shape, -1) != shape.end());
  }
}

TEST_CASE("an ONNX file has several inputs and answers by their names", "[onnx]") {
  if (without_protobuf()) return;
  Graph net;
  const Graph::Value a = net.input("image"), b = net.input("meta");
  net.output(net.call("add", {a, b}));
  net.output(net.call("argmax", {b}, {{"dim", 1}}));
  const Parameters parameters = place(net, DType::f32, Device::cpu, 1);
  const std::vector<InputSamples> inputs{{"image", {4}}, {"meta", {4}}};
  const OnnxFile file = read_onnx(onnx_of(net, inputs, {"sum", "place"}, parameters));
  REQUIRE_ERROR(onnx_of(net, inputs, {"sum"}, parameters), "2 answers: expected 1");
  const auto names = [&](uint64_t number) {
    std::vector<std::string> all;
    for (const std::string& each : all_of(file.graph, number))
      all.push_back(all_of(fields_of(each), 1).at(0));
    return all;
  };
  REQUIRE(names(11) == std::vector<std::string>{"image", "meta"});
  REQUIRE(names(12) == std::vector<std::string>{"sum", "place"});
}

}  // namespace accrue::test
