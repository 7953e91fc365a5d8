#include "text/gguf_export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/quantized_matmul.h"
#include "text/gguf_model.h"
#include "text/gguf_tokenizer.h"
#include "text/special_tokens.h"
#include "train/weights.h"

namespace accrue {
namespace {

const LlamaOptions& llama_in(const TextModelOptions& model) {
  const auto* const llama = std::get_if<LlamaOptions>(&model);
  check(llama, "a GPT-2 is not written to GGUF files here: expected a Llama or a Qwen2");
  return *llama;
}

std::string architecture_of(const LlamaOptions& o) { return o.has_bias ? "qwen2" : "llama"; }

int64_t head_size_of(const LlamaOptions& o) {
  return o.head_size > 0 ? o.head_size : o.width / o.heads;
}

// D / 2 of a parameter whose rows lie as text/gguf_model.h says, or 0.
int64_t half_head_of(const LlamaOptions& o, const std::string& name) {
  const bool is_turned = name.find(".q_proj.") != name.npos || name.find(".k_proj.") != name.npos;
  return is_turned && !o.has_bias ? head_size_of(o) / 2 : 0;
}

template <class T>
void round_to(std::span<std::byte> to, std::span<const float> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    const T rounded(row[i]);
    check(std::isfinite(static_cast<float>(rounded)),
          "{} is too large for {}: expected f32 or bf16", row[i], name(dtype_of<T>()));
    std::memcpy(to.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

void encode(std::span<std::byte> to, std::span<const float> row, DType type) {
  if (type == DType::f32) std::memcpy(to.data(), row.data(), to.size());
  else if (type == DType::f16) round_to<Half>(to, row);
  else if (type == DType::bf16) round_to<BFloat16>(to, row);
  else quantize(to, row, type);
}

bool is_encoded(DType type) {
  constexpr std::array types{DType::f32,  DType::f16,  DType::bf16,
                             DType::q4_0, DType::q4_1, DType::q8_0};
  return std::ranges::find(types, type) != types.end();
}

// Adds a tensor that has the rows of a matrix, or a vector, where the file has them.
void add_tensor(GgufWriter& file, const std::string& name, const Tensor& x, DType type,
                int64_t half) {
  const Shape shape = x.shape();
  file.tensor(name, shape, type, [x, type, half, name](std::span<std::byte> to) {
    const Tensor wide = as_f32(x);
    const auto columns = static_cast<size_t>(x.shape()[-1]);
    const size_t row_bytes = bytes_of(type, x.shape()[-1]);
    const auto elements = wide.span<float>();
    for (size_t row = 0; row * columns < elements.size(); ++row) {
      const auto there = static_cast<size_t>(stored_row(static_cast<int64_t>(row), half));
      try {
        encode(to.subspan(there * row_bytes, row_bytes), elements.subspan(row * columns, columns),
               type);
      } catch (const Error& error) {
        fail("{} as {}: {}", name, accrue::name(type), error.what());
      }
    }
  });
}

// The numbers of llama.cpp's LLAMA_FTYPE.
int64_t file_type_of(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::q4_0: return 2;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::bf16: return 32;
    default: break;
  }
  fail("a model is written to GGUF files in F32, F16, BF16, Q4_0, Q4_1 or Q8_0, not in {}",
       name(type));
}

void add_rotations(GgufWriter& file, const LlamaOptions& o, const std::string& of) {
  const RotaryBase& rotary = o.rotary;
  file.number(of + "rope.freq_base", rotary.base);
  file.count(of + "rope.dimension_count", head_size_of(o));
  if (rotary.linear_factor != 1) {
    file.text(of + "rope.scaling.type", "linear");
    file.number(of + "rope.scaling.factor", rotary.linear_factor);
  }
  if (!rotary.llama3) return;
  check(!o.has_bias, "a Qwen2 with Llama 3's scaled rotations has no form in GGUF files");
  std::vector<double> divisors = rotary_frequencies(head_size_of(o), rotary.base);
  const auto scaled = scale_as_llama3(divisors, *rotary.llama3);
  std::ranges::transform(divisors, scaled, divisors.begin(), std::divides());
  const std::vector<float> numbers(divisors.begin(), divisors.end());
  file.tensor(
      "rope_freqs.weight", {std::ssize(numbers)}, DType::f32,
      [numbers](std::span<std::byte> to) { std::memcpy(to.data(), numbers.data(), to.size()); });
}

void add_model_keys(GgufWriter& file, const LlamaOptions& o) {
  const std::string architecture = architecture_of(o), of = architecture + ".";
  file.text("general.architecture", architecture);
  file.text("general.type", "model");
  file.count(of + "vocab_size", o.vocabulary);
  file.count(of + "context_length", o.context);
  file.count(of + "embedding_length", o.width);
  file.count(of + "block_count", o.layers);
  file.count(of + "feed_forward_length", o.hidden);
  file.count(of + "attention.head_count", o.heads);
  file.count(of + "attention.head_count_kv", o.groups);
  file.number(of + "attention.layer_norm_rms_epsilon", o.norm_eps);
  if (head_size_of(o) * o.heads != o.width)
    for (const char* const name : {"attention.key_length", "attention.value_length"})
      file.count(of + name, head_size_of(o));
  add_rotations(file, o, of);
}

// The type of a matrix in the file.
DType type_for(const Shape& shape, DType type) {
  if (shape.rank() == 1) return DType::f32;
  return shape[-1] % block_elements(type) == 0 ? type : DType::f16;
}

}  // namespace

void add_gguf_model(GgufWriter& file, const TextModelOptions& model, const NamedTensors& weights,
                    const GgufStorage& storage) {
  const LlamaOptions& o = llama_in(model);
  add_model_keys(file, o);
  if (!storage.like) file.count("general.file_type", file_type_of(storage.type));
  else if (const auto type = storage.like->integer("general.file_type"))
    file.count("general.file_type", *type);
  file.count("general.quantization_version", 2);
  for (const auto& [name, tensor] : weights) {
    const std::string there = gguf_name(name);
    if (!storage.like) {
      add_tensor(file, there, tensor, type_for(tensor.shape(), storage.type),
                 half_head_of(o, name));
      continue;
    }
    const GgufTensor& before = storage.like->tensor(there);
    check(before.shape == tensor.shape(), "'{}': the tensor '{}' is {}, expected {}",
          storage.like->path().string(), there, before.shape, tensor.shape());
    if (!storage.changed.contains(name)) {
      file.tensor(there, before.shape, before.type, [&before](std::span<std::byte> to) {
        std::ranges::copy(before.elements, to.begin());
      });
      continue;
    }
    check(is_encoded(before.type),
          "'{}' has '{}', to which adapters are added, in {}, which is read and not written: "
          "expected another type than the base's, such as Q8_0",
          storage.like->path().string(), there, accrue::name(before.type));
    add_tensor(file, there, tensor, before.type, half_head_of(o, name));
  }
}

void add_gguf_adapters(GgufWriter& file, const TextModelOptions& model, const LoraOptions& lora,
                       const NamedTensors& weights) {
  const LlamaOptions& o = llama_in(model);
  file.text("general.architecture", architecture_of(o));
  file.text("general.type", "adapter");
  file.count("general.file_type", file_type_of(DType::f32));
  file.text("adapter.type", "lora");
  // llama.cpp divides it by the rank.
  file.number("adapter.lora.alpha", lora.scale() * double(*lora.rank));
  constexpr std::string_view a_ends = ".lora_A.weight", b_ends = ".lora_B.weight";
  for (const auto& [name, tensor] : weights) {
    const bool is_b = name.ends_with(b_ends);
    if (!is_b && !name.ends_with(a_ends)) continue;
    const std::string of = name.substr(0, name.size() - a_ends.size()) + ".weight";
    add_tensor(file, gguf_name(of) + (is_b ? ".lora_b" : ".lora_a"), tensor, DType::f32,
               is_b ? half_head_of(o, of) : 0);
  }
}

void add_gguf_tokenizer(GgufWriter& file, const GgufFile& from, int64_t vocabulary) {
  const int64_t tokens = std::ssize(from.required_texts("tokenizer.ggml.tokens"));
  check(
      tokens == vocabulary,
      "the tokenizer of '{}' has {} tokens, but the model {}: expected the one that it learned by",
      from.path().string(), tokens, vocabulary);
  file.copy_keys(from, "tokenizer.");
}

namespace {

using nlohmann::json;

// A merge, "a b" or ["a", "b"].
std::string merge_of(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;

  void set(int64_t number, const std::string& text, int32_t type) {
    check(0 <= number && number < std::ssize(texts),
          "the tokenizer's '{}' is token {}, but the model has {}: expected the tokenizer that it "
          "learned by",
          text, number, texts.size());
    texts[static_cast<size_t>(number)] = text;
    types[static_cast<size_t>(number)] = type;
  }
  std::optional<int64_t> find(const std::string& text) const {
    const auto found = std::ranges::find(texts, text);
    if (text.empty() || found == texts.end()) return {};
    return found - texts.begin();
  }
};

GgufTokens gguf_tokens_of(const json& tokenizer, int64_t vocabulary) {
  GgufTokens tokens{std::vector<std::string>(static_cast<size_t>(vocabulary)),
                    std::vector<int32_t>(static_cast<size_t>(vocabulary), gguf_unused_token)};
  for (size_t i = 0; i < tokens.texts.size(); ++i) tokens.texts[i] = fmt::format("[PAD{}]", i);
  for (const auto& [text, number] : tokenizer.at("model").at("vocab").items())
    tokens.set(number.get<int64_t>(), text, gguf_normal_token);
  for (const json& added : tokenizer.value("added_tokens", json::array()))
    tokens.set(added.at("id").get<int64_t>(), added.at("content").get<std::string>(),
               added.value("special", false) ? gguf_control_token : gguf_users_token);
  return tokens;
}

void add_chat_template(GgufWriter& file, const TokenizerFiles& from, const json& config) {
  const auto apart = from.files.find("chat_template.jinja");
  const auto form = config.find("chat_template");
  if (apart != from.files.end()) return file.text("tokenizer.chat_template", apart->second);
  if (form == config.end() || form->is_null()) return;
  if (form->is_string())
    return file.text("tokenizer.chat_template", form->get_ref<const std::string&>());
  std::vector<std::string> names;
  for (const json& named : *form) {
    const auto name = named.at("name").get<std::string>();
    const auto text = named.at("template").get<std::string>();
    if (name == "default") file.text("tokenizer.chat_template", text);
    else file.text("tokenizer.chat_template." + names.emplace_back(name), text);
  }
  if (!names.empty()) file.texts("tokenizer.chat_templates", names);
}

void add_bpe(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary) {
  json tokenizer = json::parse(from.files.at("tokenizer.json"));
  const FilesBesideTokenizer beside = files_beside_tokenizer(from.files, "tokenizer.json");
  add_special_tokens(tokenizer, beside, "tokenizer.json");
  const json &config = beside.config, names = special_token_names(beside);
  const GgufTokens tokens = gguf_tokens_of(tokenizer, vocabulary);
  std::vector<std::string> merges;
  std::ranges::transform(tokenizer.at("model").at("merges"), std::back_inserter(merges), merge_of);
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", gguf_name_of_splitting(tokenizer));
  file.texts("tokenizer.ggml.tokens", tokens.texts);
  file.integers("tokenizer.ggml.token_type", tokens.types);
  file.texts("tokenizer.ggml.merges", merges);
  const auto add = [&](const char* key, std::optional<int64_t> token) {
    if (token) file.count(fmt::format("tokenizer.ggml.{}", key), *token);
  };
  const auto of = [&](const char* name) { return tokens.find(names.value(name, "")); };
  add("bos_token_id", of("bos_token"));
  add("eos_token_id", of("eos_token").value_or(from.tokenizer->end_of_text()));
  add("unknown_token_id", of("unk_token"));
  add("padding_token_id", of("pad_token"));
  for (const char* const name : {"add_bos_token", "add_eos_token"})
    if (config.contains(name) && config[name].is_boolean())
      file.flag(fmt::format("tokenizer.ggml.{}", name), config[name].get<bool>());
  add_chat_template(file, from, config);
}

}  // namespace

void add_gguf_tokenizer(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary) {
  check(from.files.contains("tokenizer.json"),
        "a GGUF file has the tokenizer within: expected that of a tokenizer.json with a byte-level "
        "BPE, or of another GGUF file, not {}",
        from.name());
  check(from.tokenizer->size() <= vocabulary,
        "the tokenizer has {} tokens, but the model {}: expected the one that it learned by",
        from.tokenizer->size(), vocabulary);
  try {
    add_bpe(file, from, vocabulary);
  } catch (const json::exception& error) {
    fail("the tokenizer.json is not one of a byte-level BPE: {}", error.what());
  }
}

}  // namespace accrue
