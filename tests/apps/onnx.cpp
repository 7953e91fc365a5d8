// ONNX files: what they hold, and by onnxruntime what they compute.

#include "train/onnx/onnx.h"

#include <cstdlib>
#include <random>

#include "fonts/domain.h"
#include "images/domain.h"
#include "kernels/losses.h"
#include "kernels/pointwise.h"
#include "tests/support/cli.h"
#include "text/domain.h"
#include "text/language_model.h"

namespace accrue::test {
namespace {

// The fields of a protobuf message that are messages, texts or bytes, by their numbers.
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
         "does not say of what size its network's samples and answers are");
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

namespace {

// Runs every file on the inputs beside it, and prints how far the answers are apart.
constexpr const char* comparison = R"(
import json, pathlib, sys
import numpy, onnx, onnxruntime

def tensors(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    types = {"F64": numpy.float64, "F32": numpy.float32, "I32": numpy.int32, "U8": numpy.uint8}
    for name, about in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            part = data[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]]
            yield name, numpy.frombuffer(part, types[about["dtype"]]).reshape(about["shape"])

worst = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    apart = []
    for samples in sorted(path.parent.glob(path.stem + ".*.samples")):
        inputs = dict(tensors(samples))
        wanted = inputs.pop("answer")
        answer, = session.run(None, inputs)
        assert answer.shape == wanted.shape, (path, answer.shape, wanted.shape)
        apart.append(abs(answer - wanted).max() / abs(wanted).max())
    assert apart, path
    worst = max(worst, *apart) if numpy.isfinite(apart).all() else numpy.inf
    nodes = len(onnx.load(str(path)).graph.node)
    print(f"{path.stem}: {nodes} nodes, {path.stat().st_size / 2**20:.1f} MiB, {max(apart):.1e}")
sys.exit(0 if worst <= 1e-5 else 1)
)";

// Numbers that no layer is left without an effect by, unlike those that training begins with.
void draw_all(const Parameters& parameters, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> around(-0.25, 0.25);
  for (const auto* entries : {&parameters.all_entries(), &parameters.buffer_entries()})
    for (const Parameters::Entry& entry : *entries)
      if (entry.tensor.shape().rank() < 2)
        for (float& value : entry.tensor.span<float>()) value += around(random);
}

// Inputs like those of an example, but for their free sizes.
NamedTensors inputs_like(const Example& example, const std::vector<int64_t>& free, int64_t most,
                         uint64_t seed) {
  std::mt19937_64 random(seed);
  NamedTensors inputs;
  for (const auto& [name, values] : example.inputs) {
    Shape shape = values.shape();
    for (size_t i = 0; i < example.free_sizes.size(); ++i)
      shape = shape.with(static_cast<int>(i), free[i]);
    const Tensor x = Tensor::empty(shape, values.dtype(), Device::cpu);
    if (x.dtype() == DType::i32)
      for (int32_t& v : x.span<int32_t>())
        v = std::uniform_int_distribution<int32_t>(0, int32_t(most - 1))(random);
    else
      for (float& v : x.span<float>()) v = std::uniform_real_distribution<float>(-1, 1)(random);
    inputs.emplace_back(name, x);
  }
  return inputs;
}

Tensor answer_of(const Module& network, const NamedTensors& inputs) {
  const Tensor& x = inputs[0].second;
  if (const auto* generator = dynamic_cast<const Zi2ziGenerator*>(&network))
    return generator->draw(generator->encode(x, Pass::eval()), inputs[1].second, Pass::eval());
  const Tensor y = network(x, Pass::eval());
  if (!dynamic_cast<const LanguageModel*>(&network)) return y;
  return y.reshape({x.size(0), x.size(1), y.size(1)});
}

// The same numbers in float64, where they are in float32.
Tensor widened(const Tensor& x) {
  if (x.dtype() != DType::f32) return x;
  const auto values = x.span<float>();
  return Tensor::from(std::vector<double>(values.begin(), values.end()), x.shape());
}

void copy_widened(const std::vector<Parameters::Entry>& to,
                  const std::vector<Parameters::Entry>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i].tensor.copy_from(widened(from[i].tensor));
}

// Makes numbers in [-1, 1] bytes, x [N, C, H, W], and `normalized` what a network sees of these.
void make_bytes(Tensor& x, const Tensor& normalized, const Normalization& by) {
  const auto values = x.span<float>();
  const Tensor bytes = Tensor::empty(x.shape(), DType::u8, Device::cpu);
  const auto pixels = x.shape().numel(2, 4), channels = x.size(1);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto at = size_t(i), c = size_t(i / pixels % channels);
    bytes.span<uint8_t>()[at] = uint8_t(std::lround((values[at] + 1) * 127.5f));
    normalized.span<double>()[at] = (bytes.span<uint8_t>()[at] / 255.0 - by.mean[c]) / by.std[c];
  }
  x = bytes;
}

// A network's file, and what it answers to two sets of inputs, in float64.
void write_case(const Folder& folder, const std::string& name, const Domain& domain,
                const std::string& model, const ModelOptions& options,
                const std::optional<Normalization>& bytes = {}) {
  const auto about = [&] {
    for (const DomainModel& each : domain.models())
      if (each.name == model) return each;
    throw Error("no model " + model);
  }();
  const auto network = domain.factory(model, options)();
  const Parameters parameters =
      place(*network, DType::f32, Device::cpu, 1, GradientStorage::on_demand);
  draw_all(parameters, 2);
  const Example example = domain.example(*network, about, options);
  folder.TemporaryDirectory::write(name + ".onnx", onnx_of(example, parameters, {}, bytes));
  const auto exact = domain.factory(model, options)();
  const Parameters exact_parameters =
      place(*exact, DType::f64, Device::cpu, 1, GradientStorage::on_demand);
  copy_widened(exact_parameters.all_entries(), parameters.all_entries());
  copy_widened(exact_parameters.buffer_entries(), parameters.buffer_entries());
  const bool has_tokens = example.free_sizes.size() == 2;
  const NoGrad no_grad;
  for (const int64_t N : {1, 5}) {
    const std::vector<int64_t> sizes{N, has_tokens ? options.image[0] - N : 0};
    NamedTensors all = inputs_like(example, sizes, options.classes, uint64_t(N)), wide;
    for (const auto& [input, values] : all) wide.emplace_back(input, widened(values));
    if (bytes) make_bytes(all[0].second, wide[0].second, *bytes);
    all.emplace_back("answer", answer_of(*exact, wide));
    write_safetensors(folder / fmt::format("{}.{}.samples", name, N), all);
  }
}

}  // namespace

TEST_CASE("onnxruntime computes what the networks do", "[.python]") {
  if (without_protobuf()) return;
  const char* given = std::getenv("ACCRUE_TEST_PYTHON");
  const std::string python = given ? given : "python3";
  if (shell(python + " -c 'import onnx, onnxruntime'").status != 0)
    SKIP_LOUDLY("no Python modules onnx and onnxruntime for " << python
                                                              << "; set ACCRUE_TEST_PYTHON");
  const Folder folder;
  const auto write = [&](const std::string& name, const Domain& domain, const std::string& model,
                         const ModelOptions& options) {
    write_case(folder, name, domain, model, options);
  };
  const Images images;
  for (const auto& [model, kind] : model_names()) write(model, images, model, default_model(kind));
  // Sides that neither pools nor strides divide.
  write("cnn-bn 31x37", images, "cnn-bn", {.image = {3, 31, 37}, .classes = 7});
  write("resnet18 97x65", images, "resnet18", {.image = {3, 97, 65}, .classes = 5});
  write("unet 45x50", images, "unet", {.image = {3, 45, 50}, .classes = 4});

  write_case(folder, "cnn-bn of bytes", images, "cnn-bn", {.image = {3, 28, 28}},
             Normalization{.mean = {0.5, 0.4, 0.3}, .std = {0.25, 0.2, 0.3}});

  const accrue::Fonts fonts;
  const ModelOptions glyphs{.init = InitScheme::normal, .image = {1, 256, 256}, .classes = 3};
  write("zi2zi", fonts, "zi2zi", glyphs);
  accrue::Fonts otherwise;
  otherwise.game.networks.upsampling = Upsampling::transposed;
  otherwise.game.networks.skip = Skip::concat;
  otherwise.game.networks.norm = NormKind::batch;
  otherwise.game.networks.self_attention = true;
  write("zi2zi otherwise", otherwise, "zi2zi", {.width = 0.25, .image = {1, 96, 96}, .classes = 3});

  Text text;
  const ModelOptions rows{.image = {40}, .classes = 256};
  for (const char* model : {"gpt-tiny", "llama-tiny"}) write(model, text, model, rows);
  text.lora.rank = 4;
  write("gpt-tiny with adapters", text, "gpt-tiny", rows);
  text.sizes = {.groups = 2, .rotary_scaling = "linear:4", .is_tied = false, .has_bias = true};
  write("llama-tiny otherwise", text, "llama-tiny", rows);

  const auto path = folder.TemporaryDirectory::write("compare.py", comparison);
  const Output output =
      shell(fmt::format("{} '{}' '{}'", python, path.string(), folder.path().string()));
  INFO(output.text);
  REQUIRE(output.status == 0);
  REQUIRE(output.text.find("resnet50: ") != std::string::npos);
}

}  // namespace accrue::test
