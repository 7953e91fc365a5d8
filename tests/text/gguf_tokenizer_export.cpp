// Exports of tokenizers to GGUF files.

#include "text/gguf_tokenizer_export.h"

#include <fmt/ranges.h>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizers.h"

namespace accrue::test {
namespace gguf_tokenizer_export {
namespace {

// A field of a message in the wire format of protocol buffers: a text, an integer or a float.
std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}
std::string field(int number, int value) {
  const int tag = number << 3;
  std::string bytes{static_cast<char>((tag & 0x7f) | (tag > 0x7f ? 0x80 : 0))};
  if (tag > 0x7f) bytes += static_cast<char>(tag >> 7);
  return bytes + static_cast<char>(value);
}
std::string field(int number, float value) {
  std::string bytes{static_cast<char>(number << 3 | 5)};
  return bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string piece(const std::string& text, float score, int kind) {
  return field(1, field(1, text) + field(2, score) + field(3, kind));
}

// A SentencePiece model with a few letters, the bytes, a token that is found in texts, and settings
// of the trainer and the normalizer.
std::string model_of(int kind = 2, int removes_spaces = 0) {
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
                      piece("ab", -1, 1) + piece("\u2581a", -2, 1) + piece("a", -10, 1) +
                      piece("b", -11, 1) + piece("\u2581", -13, 1) + piece("<u\u2581u>", 0, 4);
  for (int i = 0; i < 256; ++i) model += piece(fmt::format("<0x{:02X}>", i), 0, 6);
  return model + field(2, field(3, kind)) + field(3, field(4, removes_spaces));
}

constexpr int64_t vocabulary = 320;

// Requires that a tokenizer written to a GGUF file gives each text the same tokens, and the same
// tokens around it.
std::string require_same_in_gguf(const std::string& place) {
  const TokenizerFiles from = tokenizer_with_files(place);
  const TemporaryDirectory directory;
  GgufWriter writer;
  add_gguf_tokenizer(writer, from, vocabulary);
  writer.write(directory.path() / "t.gguf");
  const GgufFile file(directory.path() / "t.gguf");
  const TokenizerPtr there = read_gguf_tokenizer(file).tokenizer;
  REQUIRE(there->size() == vocabulary);
  REQUIRE(tokenizer_checksum(*there) == tokenizer_checksum(*from.tokenizer));
  REQUIRE(there->end_of_text() == from.tokenizer->end_of_text());
  REQUIRE(there->before_text() == from.tokenizer->before_text());
  REQUIRE(there->after_text() == from.tokenizer->after_text());
  for (const char* const text :
       {"", "ab aab", "  it's <u u> 12\n", "caf\xc3\xa9 <s>a<mark><|endoftext|>b"})
    REQUIRE(there->encode(text) == from.tokenizer->encode(text));
  REQUIRE(file.flag("tokenizer.ggml.add_bos_token").has_value());
  REQUIRE(file.texts("tokenizer.ggml.tokens")->back() == "[PAD319]");
  return std::string(file.required_text("tokenizer.ggml.model")) +
         std::string(file.text("tokenizer.chat_template").value_or(""));
}

}  // namespace

TEST_CASE("SentencePiece's model, GPT-2's files and bytes have a form in GGUF files", "[text]") {
  const TemporaryDirectory directory;
  REQUIRE(require_same_in_gguf("bytes") == "gpt2");

  directory.write("pieces/tokenizer.model", model_of());
  const std::string pieces = (directory.path() / "pieces").string();
  const TokenizerPtr plain = tokenizer_at(pieces);
  REQUIRE(plain->before_text() == std::vector{1});
  REQUIRE(plain->encode("ab<u u>b") == std::vector{7, 3, 8, 6});
  REQUIRE(require_same_in_gguf(pieces) == "llama");
  REQUIRE(require_same_in_gguf(pieces + "/tokenizer.model") == "llama");
  directory.write("pieces/tokenizer_config.json",
                  R"({"add_bos_token": false, "add_eos_token": true, "add_prefix_space": false,
                      "chat_template": "{}", "eos_token": {"content": "<mark>"},
                      "added_tokens_decoder": {"0": {"content": "<unk>", "special": true},
                                               "265": {"content": "<mark>", "special": true}}})");
  REQUIRE(tokenizer_at(pieces)->after_text() == std::vector{265});
  REQUIRE(tokenizer_at(pieces)->encode("ab") == std::vector{3});
  REQUIRE(require_same_in_gguf(pieces) == "llama{}");

  std::string names = R"({"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3, "\u0120a": 4, "\u0120": 5)";
  for (const auto& [name, merges] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    const TemporaryDirectory two;
    two.write(name, names + "}");
    two.write(merges, "#version: 0.2\na b\n\u0120 a\n");
    REQUIRE(require_same_in_gguf(two.path().string()) == "gpt2");
  }
}

TEST_CASE("what llama.cpp would read as other tokens is refused", "[text]") {
  const TemporaryDirectory directory;
  const auto refuse = [&](const std::string& model, const std::string& config,
                          const std::string& why) {
    directory.write("tokenizer.model", model);
    directory.write("tokenizer_config.json", config);
    REQUIRE_ERROR(tokenizer_at(directory.path().string()), why);
  };
  refuse(model_of(1), "{}", "is a model of type 1: expected 2");
  refuse(model_of(2, 1), "{}", "changes a text before it is cut");
  refuse("\x0a\x7f", "{}", "is no model of SentencePiece, or is damaged");
  refuse(model_of(), R"({"added_tokens_decoder": {"900": {"content": "x"}}})",
         "says that the token 'x' is 900, but it becomes 265");
  refuse(model_of(), R"({"added_tokens_decoder": {"x": {"content": "x"}}})", "expected");
  refuse(model_of(), R"({"added_tokens_decoder": {"4": 1}})", "expected");

  const TemporaryDirectory two;
  two.write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "<x>": 1}, "merges": []},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "added_tokens":
    [{"id": 1, "content": "<x>", "special": true, "lstrip": true, "normalized": false}]})");
  two.write("tokenizer_config.json", R"({"eos_token": "<x>"})");
  GgufWriter file;
  REQUIRE_ERROR(add_gguf_tokenizer(file, tokenizer_with_files(two.path().string()), 2),
                "the token '<x>' has lstrip");
  REQUIRE_ERROR(add_gguf_tokenizer(file, tokenizer_with_files("bytes"), 4),
                "the tokenizer has 257 tokens, but the model 4");
}

}  // namespace gguf_tokenizer_export
}  // namespace accrue::test
