// Language models and tokenizers in GGUF files.

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kernels/quantized_matmul.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/gguf_bytes.h"
#include "text/base.h"
#include "text/gguf_model.h"
#include "text/gguf_tokenizer.h"
#include "text/models.h"
#include "text/tokenizer_file.h"
#include "train/weights.h"

namespace accrue::test {
namespace gguf_text {
namespace {

using B = GgufBytes;

constexpr uint32_t f32_type = 0;

std::string floats(uint64_t count) { return std::string(count * 4, '\0'); }

B metadata(const std::string& architecture = "llama", float rotary_base = 50000) {
  B file;
  file.string("general.architecture", architecture);
  const std::pair<const char*, uint32_t> counts[]{
      {"block_count", 2},          {"context_length", 64},      {"embedding_length", 8},
      {"feed_forward_length", 12}, {"attention.head_count", 2}, {"attention.head_count_kv", 1},
      {"vocab_size", 11},          {"rope.dimension_count", 4}};
  for (const auto& [key, value] : counts) file.count(architecture + "." + key, value);
  file.number(architecture + ".attention.layer_norm_rms_epsilon", B::f32, 1e-5f);
  file.number(architecture + ".rope.freq_base", B::f32, rotary_base);
  return file;
}

// Adds the tensors of that model, all zeros.
B& add_tensors(B& file, bool has_bias = false) {
  const auto add = [&](const std::string& name, std::vector<uint64_t> sizes) {
    uint64_t count = 1;
    for (const uint64_t size : sizes) count *= size;
    file.tensor(name, sizes, f32_type, floats(count));
  };
  add("token_embd.weight", {8, 11});
  add("output_norm.weight", {8});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* name : {"attn_q.weight", "attn_output.weight"}) add(layer + name, {8, 8});
    for (const char* name : {"attn_k.weight", "attn_v.weight"}) add(layer + name, {8, 4});
    for (const char* name : {"ffn_gate.weight", "ffn_up.weight"}) add(layer + name, {8, 12});
    add(layer + "ffn_down.weight", {12, 8});
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) add(layer + name, {8});
    if (!has_bias) continue;
    add(layer + "attn_q.bias", {8});
    for (const char* name : {"attn_k.bias", "attn_v.bias"}) add(layer + name, {4});
  }
  return file;
}

class OpenGguf {
 public:
  explicit OpenGguf(const B& bytes) : file_(directory_.write("model.gguf", bytes.file())) {}
  const GgufFile& operator*() const { return file_; }

 private:
  TemporaryDirectory directory_;
  GgufFile file_;
};

LlamaOptions options_of(const B& bytes) {
  const PretrainedModel found = read_gguf_config(*OpenGguf(bytes));
  return std::get<LlamaOptions>(
      text_model_for(text_model(found.name, found.sizes), found.vocabulary, found.context));
}

void refuse_model(const B& bytes, const std::string& part) {
  const OpenGguf file(bytes);
  REQUIRE_ERROR(read_gguf_config(*file), part);
}

}  // namespace

TEST_CASE("a GGUF file says what a Llama is", "[text]") {
  B file = metadata();
  const LlamaOptions o = options_of(add_tensors(file));
  REQUIRE(o.layers == 2);
  REQUIRE(o.heads == 2);
  REQUIRE(o.groups == 1);
  REQUIRE(o.head_size == 4);
  REQUIRE(o.width == 8);
  REQUIRE(o.hidden == 12);
  REQUIRE(o.vocabulary == 11);
  REQUIRE(o.norm_eps == 1e-5);  // not the nearest float32
  REQUIRE(o.rotary.base == 50000);
  REQUIRE(o.rotary.linear_factor == 1);
  REQUIRE(o.is_tied);
  REQUIRE_FALSE(o.has_bias);

  B scaled = metadata().string("llama.rope.scaling.type", "linear");
  scaled.number("llama.rope.scaling.factor", B::f32, 4.f)
      .tensor("output.weight", {8, 11}, f32_type, floats(88));
  const LlamaOptions other = options_of(add_tensors(scaled));
  REQUIRE(other.rotary.linear_factor == 4);
  REQUIRE_FALSE(other.is_tied);

  // An export also writes the tokens that begin and end texts.
  B ends = metadata().count("tokenizer.ggml.bos_token_id", 3).count("clip.projection_dim", 7);
  ends.count("tokenizer.ggml.eos_token_id", 5).string("general.basename", "tiny");
  const PretrainedModel found = read_gguf_model(*OpenGguf(add_tensors(ends)));
  const auto config = nlohmann::json::parse(found.files.at("config.json"));
  REQUIRE(config["max_position_embeddings"] == 64);
  REQUIRE(config["bos_token_id"] == 3);
  REQUIRE(config["eos_token_id"] == 5);
  REQUIRE(found.warnings.size() == 1);
  REQUIRE_THAT(found.warnings.front(), ContainsSubstring("clip.projection_dim is 7, which is not"));

  B qwen = metadata("qwen2");
  REQUIRE(options_of(add_tensors(qwen, true)).has_bias);
}

TEST_CASE("Llama 3's rotations are known by the divisors in a GGUF file", "[text]") {
  const auto with = [](float rotary_base, float first, float second) {
    B file = metadata("llama", rotary_base);
    file.tensor("rope_freqs.weight", {2}, f32_type, B::raw(first) + B::raw(second));
    return add_tensors(file);
  };
  // In the original context the second pair turns 8192 / (2 pi) * base^(-1/2) times. 0.058 turns
  // are divided by the factor. 5.8 turns are above 4 and stay.
  const LlamaOptions o = options_of(with(5e8f, 1, 32));
  REQUIRE(o.rotary.llama3);
  REQUIRE(o.rotary.llama3->factor == 32);
  REQUIRE(o.rotary.llama3->original_max_position_embeddings == 8192);
  refuse_model(with(50000, 1, 32), "'rope_freqs.weight' divides frequency 1 by 32, expected 1");
  REQUIRE_FALSE(options_of(with(50000, 1, 1)).rotary.llama3);
}

TEST_CASE("a GGUF file's unknown features are refused by name", "[text]") {
  const auto with = [](B file) { return add_tensors(file); };
  refuse_model(with(metadata("gemma")), "architecture 'gemma', expected llama or qwen2");
  refuse_model(with(metadata().count("llama.expert_count", 8)),
               "llama.expert_count is 8, expected 0");
  REQUIRE(options_of(with(metadata().count("llama.expert_count", 0))).layers == 2);
  refuse_model(with(metadata().number("llama.attention.scale", B::f32, 0.125f)),
               "llama.attention.scale is 0.125, which is not known");
  refuse_model(with(metadata().string("llama.rope.scaling.type", "yarn")), "'yarn', expected none");
  refuse_model(with(metadata().count("llama.attention.key_length", 6)),
               "llama.rope.dimension_count is 4, expected 6");
  refuse_model(with(metadata().count("split.count", 3)), "one of 3 files");
  refuse_model(with(metadata().string("general.type", "adapter")), "expected model");
  refuse_model(with(metadata().number("llama.attention.causal", B::boolean, false)),
               "llama.attention.causal is false, expected true");
  refuse_model(with(B().string("general.architecture", "llama")), "lacks the key 'llama.");
  refuse_model(with(B()), "lacks the key 'general.architecture'");
  refuse_model(metadata(), "lacks the tensor 'token_embd.weight'");
  B more = metadata(), fewer = metadata();
  more.tensor("blk.0.attn_q_norm.weight", {4}, f32_type, floats(4));
  refuse_model(add_tensors(more), "has the tensor 'blk.0.attn_q_norm.weight', which accrue's");
  fewer.tensor("token_embd.weight", {8, 11}, f32_type, floats(88));
  refuse_model(fewer, "has 1 tensor, too few for 2 layers");
  fewer.tensor("output_norm.weight", {8}, f32_type, floats(8));
  refuse_model(fewer, "lacks the tensor 'blk.0.attn_k.weight'");
}

TEST_CASE("every parameter of a Llama is found in a GGUF file", "[text]") {
  for (const bool has_bias : {false, true}) {
    B bytes = metadata(has_bias ? "qwen2" : "llama");
    const OpenGguf file(add_tensors(bytes, has_bias));
    const PretrainedModel found = read_gguf_config(*file);
    const auto model = make_text_model(
        text_model_for(text_model(found.name, found.sizes), found.vocabulary, found.context));
    std::set<const GgufTensor*> used;
    for (const auto& [name, tensor] :
         named_tensors(place(*model, DType::f32, Device::cpu, 1, GradientStorage::on_demand))) {
      INFO(name);
      const GgufParameter parameter = find_gguf_parameter(*file, name, tensor.shape());
      REQUIRE(used.insert(parameter.tensor).second);
      const bool is_turned = name.find("q_proj") != name.npos || name.find("k_proj") != name.npos;
      REQUIRE(parameter.shape.rank() == (is_turned && !has_bias ? 4 : 2));
      REQUIRE(parameter.shape.numel() == tensor.numel());
    }
    REQUIRE(used.size() == (*file).tensors().size());
  }
}

// The converter's LlamaModel.permute() on the rows 0 .. 11 of two heads of six:
//   numpy.arange(12).reshape(2, 2, 3).swapaxes(1, 2).reshape(12)
TEST_CASE("rows of queries and keys are found where llama.cpp's converter puts them", "[text]") {
  const std::vector<int64_t> converted{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
  B bytes;
  bytes.string("general.architecture", "llama").count("llama.attention.head_count", 4);
  bytes.count("llama.attention.head_count_kv", 2).count("llama.embedding_length", 24);
  bytes.tensor("blk.3.attn_k.weight", {1, 12}, f32_type, floats(12));
  bytes.tensor("blk.3.attn_v.weight", {1, 12}, f32_type, floats(12));
  bytes.tensor("blk.3.attn_q.weight", {1, 12}, f32_type, floats(12));
  const OpenGguf file(bytes);
  const GgufParameter keys =
      find_gguf_parameter(*file, "model.layers.3.self_attn.k_proj.weight", {12, 1});
  REQUIRE(keys.shape == Shape{2, 3, 2, 1});
  for (int64_t row = 0; row < 12; ++row)
    REQUIRE(converted[static_cast<size_t>(stored_row(row, half_head(keys.shape)))] == row);
  REQUIRE(find_gguf_parameter(*file, "model.layers.3.self_attn.v_proj.weight", {12, 1}).shape ==
          Shape{12, 1});
  REQUIRE_ERROR(find_gguf_parameter(*file, "model.layers.3.self_attn.v_proj.weight", {1, 12}),
                "the tensor 'blk.3.attn_v.weight' is [12, 1], expected [1, 12]");
  REQUIRE_ERROR(find_gguf_parameter(*file, "model.layers.3.self_attn.q_proj.weight", {12, 1}),
                "has 12 rows, expected 4 heads of 6");
  REQUIRE_ERROR(find_gguf_parameter(*file, "model.layers.4.mlp.up_proj.weight", {1}),
                "lacks the tensor 'blk.4.ffn_up.weight'");
  for (const char* const name : {"model.layers.3", "model.layers.3.mlp.weight", "transformer.wte"})
    REQUIRE_ERROR(find_gguf_parameter(*file, name, {1}), "is no parameter of a GPT-2 or a Llama");
}

namespace {

// Letters, a space, digits, a letter with an accent, and a word that no merges make.
B vocabulary(const std::string& splits_as) {
  B file;
  file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", splits_as);
  file.list<std::string>("tokenizer.ggml.tokens", B::text,
                         {"<|end|>", "h", "e", "\xc4\xa0", "1", "2", "he", "12",
                          "\xc4\xa0"
                          "he",
                          "\xc3\x83", "\xc2\xa9", "\xc3\x83\xc2\xa9", "<note>", "eh", "[PAD14]"});
  file.list<int32_t>("tokenizer.ggml.token_type", B::i32,
                     {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 5});
  file.list<std::string>("tokenizer.ggml.merges", B::text,
                         {"h e", "1 2", "\xc4\xa0 he", "\xc3\x83 \xc2\xa9"});
  return file;
}

using Tokens = std::vector<int32_t>;

}  // namespace

TEST_CASE("a GGUF file's tokenizer splits texts as its model does", "[text]") {
  const auto encode = [](const char* splits_as, const std::string& text) {
    return read_gguf_tokenizer(*OpenGguf(vocabulary(splits_as))).tokenizer->encode(text);
  };
  REQUIRE(encode("gpt-2", "he he12<|end|><note>") == Tokens{6, 8, 7, 0, 12});
  REQUIRE(encode("smollm", "he he12") == Tokens{6, 8, 4, 5});
  REQUIRE(encode("qwen2", "he he12") == Tokens{6, 8, 4, 5});
  REQUIRE(encode("llama-bpe", "he he12") == Tokens{6, 8, 7});
  // A word that is a token stays whole, though no merges lead to it.
  REQUIRE(encode("gpt-2", "eh") == Tokens{2, 1});
  REQUIRE(encode("llama-bpe", "eh") == Tokens{13});
  // The letter and its accent are composed into the bytes c3 and a9.
  REQUIRE(encode("qwen2", "e\xcc\x81") == Tokens{11});
  REQUIRE(encode("smollm", "e\xcc\x81") == Tokens{2});
}

TEST_CASE("a GGUF file names the tokens before and after a text", "[text]") {
  const auto frame = [](const B& bytes) {
    const TokenizerFiles read = read_gguf_tokenizer(*OpenGguf(bytes));
    const TemporaryDirectory directory;
    for (const auto& [name, content] : read.files) directory.write(name, content);
    const TokenizerPtr kept = read_tokenizer(directory.path());
    REQUIRE(kept->before_text() == read.tokenizer->before_text());
    REQUIRE(kept->after_text() == read.tokenizer->after_text());
    return std::pair(kept->before_text(), kept->after_text());
  };
  const auto with = [](const char* splits_as, const char* key, bool value) {
    B bytes = vocabulary(splits_as);
    bytes.count("tokenizer.ggml.bos_token_id", 12).count("tokenizer.ggml.eos_token_id", 0);
    if (*key) bytes.add(key, B::boolean, std::string(1, value ? '\1' : '\0'));
    return bytes;
  };
  REQUIRE(frame(vocabulary("llama-bpe")) == std::pair(Tokens{}, Tokens{}));
  REQUIRE(frame(with("llama-bpe", "", true)) == std::pair(Tokens{12}, Tokens{}));
  REQUIRE(frame(with("qwen2", "", true)) == std::pair(Tokens{}, Tokens{}));
  REQUIRE(frame(with("llama-bpe", "tokenizer.ggml.add_bos_token", false)).first.empty());
  REQUIRE(frame(with("gpt-2", "tokenizer.ggml.add_bos_token", true)).first == Tokens{12});
  REQUIRE(frame(with("gpt-2", "tokenizer.ggml.add_eos_token", true)).second == Tokens{0});
  B none = vocabulary("gpt-2");
  none.add("tokenizer.ggml.add_bos_token", B::boolean, std::string(1, '\1'));
  REQUIRE_ERROR(read_gguf_tokenizer(*OpenGguf(none)),
                "lacks the key 'tokenizer.ggml.bos_token_id'");
}

TEST_CASE("a GGUF file's tokenizer can be kept as files", "[text]") {
  B bytes = vocabulary("smollm");
  bytes.count("tokenizer.ggml.eos_token_id", 0).string("tokenizer.chat_template", "{{ x }}");
  const TokenizerFiles found = read_gguf_tokenizer(*OpenGguf(bytes));
  REQUIRE(found.name() == "tokenizer.json");
  REQUIRE(found.tokenizer->end_of_text() == 0);
  REQUIRE(found.tokenizer->size() == 15);
  const TemporaryDirectory directory;
  for (const auto& [name, content] : found.files) directory.write(name, content);
  const TokenizerPtr again = read_tokenizer(directory.path());
  REQUIRE(again->end_of_text() == 0);
  const std::string text = "he 21 he<|end|>\xff";
  REQUIRE(again->encode(text) == found.tokenizer->encode(text));
  REQUIRE(found.files.at("tokenizer_config.json") ==
          R"({"chat_template":"{{ x }}","eos_token":"<|end|>"})");
}

TEST_CASE("tokenizers of GGUF files that are not there are refused", "[text]") {
  const auto refuse = [](const B& bytes, const std::string& part) {
    const OpenGguf file(bytes);
    REQUIRE_ERROR(read_gguf_tokenizer(*file), part);
  };
  refuse(B(), "lacks the key 'tokenizer.ggml.model'");
  refuse(B().string("tokenizer.ggml.model", "bert"), "of kind 'bert' (tokenizer.ggml.model)");
  refuse(vocabulary("falcon"), "splits texts as 'falcon' (tokenizer.ggml.pre), expected gpt-2");
  refuse(vocabulary("gpt-2").count("tokenizer.ggml.eos_token_id", 15), "is 15, expected one of 15");
  const auto with_tokens = [](const std::vector<std::string>& tokens) {
    B file;
    file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
    file.list<std::string>("tokenizer.ggml.tokens", B::text, tokens);
    return file.list<std::string>("tokenizer.ggml.merges", B::text, {"a b"});
  };
  refuse(with_tokens({"a", "b", "a"}), "has the token 'a' twice");
  refuse(with_tokens({"a", "b"}), "its vocabulary has no 'ab'");
  refuse(with_tokens({"a", "b", "ab", "\xff"}), "that is not UTF-8");
  refuse(with_tokens({"a", "b", "ab"}).list<int32_t>("tokenizer.ggml.token_type", B::i32, {1}),
         "has 3 tokens and tokenizer.ggml.token_type for 1");
}

}  // namespace gguf_text
}  // namespace accrue::test
