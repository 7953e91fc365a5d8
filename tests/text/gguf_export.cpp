// Exports of language models and adapters to GGUF files.

#include "text/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/safetensors.h"
#include "kernels/quantize.h"
#include "kernels/quantized_matmul.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/files.h"
#include "tests/support/op_table.h"
#include "text/base.h"
#include "train/weights.h"

namespace accrue::test {
namespace gguf_export {
namespace {

// Matrices have rows of 32 elements, except down_proj with rows of 9.
LlamaOptions small() {
  return {.vocabulary = 12,
          .context = 64,
          .width = 32,
          .hidden = 9,
          .layers = 1,
          .heads = 4,
          .groups = 2,
          .head_size = 8,
          .is_tied = true};
}

NamedTensors weights_of(const TextModelOptions& options) {
  const auto model = make_text_model(options);
  return named_tensors(place(*model, DType::f32, Device::cpu, 1, GradientStorage::on_demand));
}

std::filesystem::path written(const TemporaryDirectory& directory, const TextModelOptions& options,
                              const NamedTensors& weights, const GgufStorage& storage) {
  GgufWriter file;
  add_gguf_model(file, options, weights, storage);
  file.write(directory.path() / "model.gguf");
  return directory.path() / "model.gguf";
}

// The elements of `x` rounded to a type, in blocks along its rows.
std::vector<double> rounded(const Tensor& x, DType type) {
  const bool is_matrix = x.shape().rank() == 2;
  if (!is_matrix || type == DType::f32) return to_doubles(x);
  const DType stored = x.shape()[1] % block_elements(type) == 0 ? type : DType::f16;
  const Tensor narrow = Tensor::empty(x.shape(), stored, Device::cpu, Category::parameters);
  if (stored == DType::f16)
    std::ranges::transform(x.span<float>(), narrow.span<Half>().begin(),
                           [](float v) { return Half(v); });
  else quantize(narrow.host_bytes(), x.span<float>(), stored);
  const Tensor wide = Tensor::empty(x.shape(), DType::f32, Device::cpu, Category::parameters);
  cpu::widen_slab(wide.view(), narrow.view(), 0, 0);
  return to_doubles(wide);
}

// Adds keys about the file's author to a GGUF file.
void say_of_who_made(const std::string& path) {
  const GgufFile before(path);
  GgufWriter file;
  file.copy_keys(before, "");
  add_gguf_general(
      file, {{gguf_general_name, R"({"general.name": "A model", "general.tags": ["x", "y"]})"}});
  for (const GgufTensor& tensor : before.tensors())
    file.tensor(tensor.name, tensor.shape, tensor.type, [&tensor](std::span<std::byte> to) {
      std::ranges::copy(tensor.elements, to.begin());
    });
  file.write(path);
}

}  // namespace

TEST_CASE("a Llama comes back from a GGUF file as it went, but for the rounding", "[text]") {
  const TemporaryDirectory directory;
  LlamaOptions qwen = small(), linear = small(), llama3 = small();
  qwen.has_bias = true;
  linear.rotary.linear_factor = 4;
  linear.is_tied = false;
  llama3.rotary = {.base = 500000, .llama3 = Llama3Scaling{.factor = 32}};
  for (const LlamaOptions& o : {small(), qwen, linear, llama3}) {
    const NamedTensors weights = weights_of(o);
    for (const DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_0}) {
      INFO(name(type));
      const GgufBase base(written(directory, o, weights, {.type = type}));
      const PretrainedModel& found = base.model();
      REQUIRE(pretrained_config(
                  text_model_for(text_model(found.name, found.sizes), found.vocabulary, 1),
                  DType::f32) == pretrained_config(o, DType::f32));
      for (const auto& [name, tensor] : weights) {
        INFO(name);
        REQUIRE(to_doubles(base.widened(name, tensor.shape())) == rounded(tensor, type));
      }
    }
  }
}

TEST_CASE("the share of adapters that rounding loses is known", "[text]") {
  const TemporaryDirectory directory;
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const GgufBase base(written(directory, small(), weights_of(small()), {.type = DType::q4_0}));
  const Tensor after = base.widened(name, {9, 32});
  for (float& x : after.span<float>()) x += 1e-4f;
  const auto kept = [&](DType type) {
    return share_of_changes_kept(base, {{name, after}}, {.type = type, .changed = {name}});
  };
  REQUIRE(kept(DType::f32) == 1);
  REQUIRE(std::abs(kept(DType::f16) - 1) < 0.1);
  REQUIRE(kept(DType::q4_0) < 0.5);  // in units of a block's step
  REQUIRE(share_of_changes_kept(base, {{name, after}}, {.type = DType::q4_0}) == 1);
}

TEST_CASE("a GPT-2 has rows in a GGUF file where it has columns, and positions in F32", "[text]") {
  const TemporaryDirectory directory;
  const Gpt2Options o{.vocabulary = 12, .context = 8, .width = 32, .layers = 1, .heads = 2};
  const NamedTensors weights = weights_of(o);
  const auto of = [&](const std::string& name) {
    return to_doubles(std::ranges::find(weights, name, &NamedTensors::value_type::first)->second);
  };
  const GgufFile file(written(directory, o, weights, {.type = DType::q8_0}));
  REQUIRE(file.text("general.architecture") == "gpt2");
  REQUIRE(file.integer("gpt2.feed_forward_length") == 128);
  REQUIRE(file.number("gpt2.attention.layer_norm_epsilon") == 1e-5f);
  REQUIRE(file.find_tensor("output.weight") == nullptr);  // the embedding
  REQUIRE(file.tensor("position_embd.weight").type == DType::f32);
  REQUIRE(file.tensor("blk.0.attn_qkv.bias").shape == Shape{96});
  REQUIRE(file.tensor("blk.0.ffn_down.weight").type == DType::q8_0);
  const GgufFile wide(written(directory, o, weights, {.type = DType::f32}));
  const GgufTensor& there = wide.tensor("blk.0.attn_qkv.weight");
  REQUIRE(there.shape == Shape{96, 32});
  std::vector<float> elements(static_cast<size_t>(there.shape.numel()));
  std::memcpy(elements.data(), there.elements.data(), there.elements.size());
  const std::vector<double> here = of("transformer.h.0.attn.c_attn.weight");
  for (size_t out = 0; out < 96; ++out)
    for (size_t in = 0; in < 32; ++in) REQUIRE(elements[out * 32 + in] == here[in * 96 + out]);
}

// PyPI's gguf made the expected bytes (scripts/golden_quantized_blocks.py).
TEST_CASE("blocks in a GGUF file are the bytes that llama.cpp makes", "[text]") {
  const TemporaryDirectory directory;
  NamedTensors golden =
      read_safetensors(source_folder + "/tests/golden/quantized_blocks.safetensors");
  const auto of = [&](const std::string& name) {
    return std::ranges::find(golden, name, &NamedTensors::value_type::first)->second;
  };
  NamedTensors weights = weights_of(small());
  for (auto& [name, tensor] : weights)
    if (name.ends_with("up_proj.weight")) tensor = of("weights");
  for (const auto& [type, expected] :
       {std::pair{DType::q8_0, "quantized.Q8_0"}, std::pair{DType::q4_0, "quantized.Q4_0"}}) {
    const GgufFile file(written(directory, small(), weights, {.type = type}));
    const GgufTensor& there = file.tensor("blk.0.ffn_up.weight");
    REQUIRE(there.type == type);
    const Tensor blocks = of(expected);
    REQUIRE(std::ranges::equal(there.elements, blocks.host_bytes()));
    REQUIRE(file.tensor("blk.0.ffn_down.weight").type == DType::f16);
    REQUIRE(file.tensor("blk.0.ffn_norm.weight").type == DType::f32);
  }
}

TEST_CASE("what a GGUF file has no form for is refused", "[text]") {
  GgufWriter file;
  file.count("a", 1);
  REQUIRE_ERROR(file.text("a", "x"), "the key 'a' of a GGUF file is given twice");
  REQUIRE_ERROR(file.count("b", -1), "is -1: expected 0 to");
  REQUIRE_ERROR(file.number("c", 1e300), "expected a float32");
  REQUIRE_ERROR(file.tensor("t", {2, 31}, DType::q8_0, {}), "does not have whole blocks of Q8_0");
  const TemporaryDirectory directory;
  NamedTensors weights = weights_of(small());
  weights.front().second = Tensor::full({12, 32}, 1e6, DType::f32, Device::cpu);
  REQUIRE_ERROR(written(directory, small(), weights, {.type = DType::f16}),
                "token_embd.weight as f16: 1000000 is too large");
  REQUIRE_ERROR(written(directory, small(), weights, {.type = DType::q6_k}), "not in Q6_K");
}

TEST_CASE("trained weights are exported as GGUF, and adapters for a GGUF base, too", "[text]") {
  const Folder folder;
  std::string documents;
  for (int i = 0; i < 60; ++i) documents += fmt::format("{{\"text\": \"{} times of it\"}}\n", i);
  const std::string texts = folder.write("texts.jsonl", documents).string();
  const std::string corpus = folder / "corpus", again = folder / "again";
  const std::string whole = folder / "w.safetensors", model = folder / "model.gguf";
  const std::string tuned = folder / "tuned.safetensors", merged = folder / "merged.safetensors";
  const std::string prepare = fmt::format("text prepare --hold-out 0.1 --text {} ", texts);
  succeed(prepare + "--train-tokenizer 280 --out " + corpus);
  const std::string data = " --data " + corpus + " --context 8";
  const std::string steps = data + " --micro-batch 2 --effective-batch 2 --steps 2 --lr 0.1 ";
  succeed(
      "train --model llama-tiny --layers 2 --heads 2 --groups 1 --hidden-size 32 --positions "
      "4096 --feed-forward-size 64" +
      steps + "--save " + whole);
  const auto loss_of = [&](const std::string& weights) {
    const std::string said = succeed("eval --init " + weights + data);
    return said.substr(said.rfind("loss"), 11);
  };
  const std::string out = fmt::format("text export --tokenizer {} --weights ", corpus);

  // The whole model and its tokenizer go out and come back.
  succeed(out + whole + " --gguf-type F32 --out " + model);
  succeed(fmt::format("text import --from {} --out {}", model, merged));
  for (const auto& [name, tensor] : read_safetensors(whole))
    REQUIRE(to_doubles(GgufBase(model).widened(name, tensor.shape())) == to_doubles(tensor));
  REQUIRE(loss_of(merged) == loss_of(whole));
  REQUIRE(GgufBase(model).model().context == 4096);
  succeed(prepare + fmt::format("--tokenizer {} --out {}", model, again));
  REQUIRE(read_file(again + "/tokens.bin") == read_file(corpus + "/tokens.bin"));

  // Adapters on a quantized base are added to the widened numbers.
  succeed(out + whole + " --gguf-type Q8_0 --out " + model);
  say_of_who_made(model);
  for (const std::string& base : {"--base " + model, "--base-bits 4 --base " + whole}) {
    INFO(base);
    succeed("train --lora 2 " + base + steps + "--save " + tuned);
    succeed(fmt::format("text merge --weights {} --out {}", tuned, merged));
    REQUIRE(loss_of(merged) == loss_of(tuned));
    REQUIRE(loss_of(merged) != loss_of(whole));
    REQUIRE(read_safetensors_metadata(merged).at("positions") == "4096");
    refuse(fmt::format("export --weights {0} --out {0}.onnx", tuned),
           "expected merged ones (accrue text merge)");
    succeed(fmt::format("export --weights {0} --out {0}.onnx", merged));
    const std::string written = folder / "tuned.gguf";
    succeed(out + tuned + " --gguf-type F32 --out " + written);
    for (const auto& [name, tensor] : read_safetensors(merged))
      REQUIRE(to_doubles(GgufBase(written).widened(name, tensor.shape())) == to_doubles(tensor));
    succeed(fmt::format("text export --adapter --weights {} --out {}/lora.gguf", tuned,
                        folder.path().string()));
    const GgufFile adapters(folder / "lora.gguf");
    REQUIRE(adapters.number("adapter.lora.alpha") == 4);
    REQUIRE(adapters.tensor("blk.1.attn_v.weight.lora_b").shape == Shape{16, 2});
    if (base.find("--base-bits") != base.npos) continue;
    // The export keeps the base's tokenizer, its keys about the author, and its tensors without
    // adapters.
    succeed("text export --gguf-type base --weights " + tuned + " --out " + written);
    const GgufFile before(model), after(written);
    REQUIRE(after.bytes_of_keys("tokenizer.") == before.bytes_of_keys("tokenizer."));
    REQUIRE(after.text("general.name") == "A model");
    REQUIRE(after.texts("general.tags").value() == std::vector<std::string_view>{"x", "y"});
    REQUIRE(after.integer("general.quantization_version") == 2);
    for (const GgufTensor& tensor : before.tensors()) {
      INFO(tensor.name);
      const bool is_changed = tensor.name.find("attn_q") != tensor.name.npos ||
                              tensor.name.find("attn_v") != tensor.name.npos;
      REQUIRE(after.tensor(tensor.name).type == tensor.type);
      REQUIRE(std::ranges::equal(after.tensor(tensor.name).elements, tensor.elements) ==
              !is_changed);
    }
  }

  const std::string adapter =
      "text export --adapter --weights " + tuned + " --out " + (folder / "p");
  refuse(adapter, "expected --base with its name on the hub");
  refuse(adapter + " --base " + model, "PEFT loads no such file below adapters");
  refuse(adapter + " --base " + corpus, "has no config.json");
  succeed(adapter + " --base somebody/model");
  REQUIRE_THAT(read_file(folder / "p/adapter_config.json"),
               ContainsSubstring(R"("base_model_name_or_path": "somebody/model")"));
  refuse(adapter + "2 --base x --gguf-type F16", "--out FILE.gguf");
  refuse("text export --tokenizer bytes --weights " + whole + " --out " + (folder / "x.gguf"),
         "the tokens come from the tokenizer 'bytes'");
  refuse(out + whole + " --gguf-type base --out " + (folder / "x.gguf"),
         "no GGUF file as its base");
}

}  // namespace gguf_export
}  // namespace accrue::test
