// The contents of ONNX files. The tests in python/tests/judges compare their results.

#include "train/onnx/onnx.h"

#include "kernels/losses.h"
#include "kernels/pointwise.h"
#include "kernels/resize.h"
#include "layers/graph.h"
#include "layers/layers.h"
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

bool without_protobuf() {
  try {
    const Tensor x = Tensor::full({2, 4}, 1, DType::f32, Device::cpu);
    onnx_of({.inputs = {{"x", x}}, .answer_name = "y", .answer = [&] { return relu(x); }},
            Parameters({}, {}, DType::f32, Device::cpu));
    return false;
  } catch (const Error& error) {
    REQUIRE_THAT(error.what(), ContainsSubstring("libprotobuf-dev"));
    WARN("built without protobuf: no ONNX file to be read");
    return true;
  }
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

TEST_CASE("a graph is exported as an ONNX file, and names the op that cannot be", "[onnx]") {
  if (without_protobuf()) return;
  const auto exported = [](Graph& net, const Tensor& in) {
    const Parameters parameters = place(net, DType::f32, Device::cpu, 1);
    return onnx_of({.inputs = {{"x", in}},
                    .answer_name = "y",
                    .answer = [&] { return net(in, Pass::eval()); }},
                   parameters);
  };
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
  const OnnxFile file =
      read_onnx(exported(net, Tensor::full({2, 4, 8, 8}, 1, DType::f32, Device::cpu)));
  REQUIRE(file.operators == std::vector<std::string>{"Conv", "Relu", "Conv", "Add", "MaxPool",
                                                     "AveragePool", "Concat", "GlobalAveragePool",
                                                     "Reshape", "Gemm", "Identity"});
  for (const char* name : {"stem.weight", "body.bias", "head.weight"})
    REQUIRE(file.constants.contains(name));

  Graph classes;
  classes.output(
      classes.call("one_hot", {classes.input()}, {{"num_classes", 3}}, "encoder.classes"));
  REQUIRE_ERROR(exported(classes, Tensor::from(std::vector<int32_t>{0, 2}, {2})),
                "in layer 'encoder.classes one_hot num_classes=3': the kernel one_hot has no");
}

TEST_CASE("what has no counterpart in ONNX is refused by its name", "[onnx]") {
  if (without_protobuf()) return;
  const Tensor x = Tensor::full({2, 4}, 1, DType::f32, Device::cpu);
  const auto refusal = [&](const std::function<Tensor()>& answer) {
    Example example{.inputs = {{"x", x}}, .answer_name = "y", .answer = answer};
    try {
      onnx_of(example, Parameters({}, {}, DType::f32, Device::cpu));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(refusal([&] { return relu(x); }).empty());
  REQUIRE_THAT(refusal([&] { return mse_loss(x, x); }), ContainsSubstring("the kernel loss"));
  for (const int64_t row : {0, 1})
    REQUIRE_THAT(refusal([&] { return relu(x.slice(row, row + 1)); }),
                 ContainsSubstring("part [1, 4] of a tensor [2, 4]"));
}

TEST_CASE("an ONNX file resizes as the network does, or is refused", "[onnx]") {
  if (without_protobuf()) return;
  const Tensor x = Tensor::full({2, 3, 5, 4}, 1, DType::f32, Device::cpu);
  const auto file_of = [&](int64_t H, int64_t W, ResizeMode mode, Coordinates coordinates) {
    return onnx_of({.inputs = {{"x", x}},
                    .answer_name = "y",
                    .answer = [&] { return resize(x, H, W, mode, coordinates); }},
                   Parameters({}, {}, DType::f32, Device::cpu));
  };
  using enum ResizeMode;
  for (const auto mode : {nearest, nearest_exact, bilinear, bicubic})
    REQUIRE(read_onnx(file_of(7, 9, mode, Coordinates::half_pixel)).operators ==
            std::vector<std::string>{"Resize", "Identity"});
  REQUIRE_THAT(file_of(7, 9, bicubic, Coordinates::align_corners),
               ContainsSubstring("align_corners"));
  // 41 * (1 / 41) is less than 1 in float32, where PyTorch picks other pixels than ONNX.
  REQUIRE_ERROR(file_of(5 * 41, 4, nearest, Coordinates::half_pixel),
                "has no counterpart in ONNX, which rounds otherwise");
}

}  // namespace accrue::test
