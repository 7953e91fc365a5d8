#include "text/gguf_tokenizer_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/gguf_tokenizer.h"
#include "text/sentencepiece.h"
#include "text/special_tokens.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr float unused_score = -10000;  // the converter's value

// The content of one of the files; empty if the file is missing.
std::string_view content_of_file(const TokenizerFiles& from, const char* name) {
  const auto found = from.files.find(name);
  return found == from.files.end() ? std::string_view() : found->second;
}

// A tokenizer.json for bytes. It has no spelling for the token that ends a text.
json json_of_bytes() {
  json names = json::object();
  for (int32_t byte = 0; byte < 256; ++byte)
    names[spelling_of(std::string(1, static_cast<char>(byte)))] = byte;
  return byte_level_bpe(std::move(names), json::array(), json::array());
}

// The tokenizer.json of a byte-level BPE, without additions from the files beside it.
json own_json_of(const TokenizerFiles& from, const json& config) {
  const std::string_view whole = content_of_file(from, "tokenizer.json");
  if (!whole.empty()) return json::parse(whole);
  if (from.files.empty()) return json_of_bytes();
  for (const auto& [names, merges] :
       {std::pair("encoder.json", "vocab.bpe"), std::pair("vocab.json", "merges.txt")})
    if (!content_of_file(from, names).empty())
      return json_of_gpt2(json::parse(content_of_file(from, names)), content_of_file(from, merges),
                          config);
  fail("the tokenizer in {} has no form in GGUF files here", from.name());
}

json tokenizer_json_of(const TokenizerFiles& from, const FilesBesideTokenizer& beside) {
  json tokenizer = own_json_of(from, beside.config);
  add_special_tokens(tokenizer, beside, from.name());
  return tokenizer;
}

// A merge, "a b" or ["a", "b"].
std::string merge_of(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;

  explicit GgufTokens(int64_t vocabulary)
      : texts(static_cast<size_t>(vocabulary)),
        types(static_cast<size_t>(vocabulary), gguf_unused_token) {
    for (size_t i = 0; i < texts.size(); ++i) texts[i] = fmt::format("[PAD{}]", i);
  }
  void set(int64_t number, const std::string& text, int32_t type) {
    check(0 <= number && number < std::ssize(texts),
          "the tokenizer's '{}' is token {}, but the model has {}: expected the tokenizer that it "
          "learned by",
          text, number, texts.size());
    texts[static_cast<size_t>(number)] = text;
    types[static_cast<size_t>(number)] = type;
  }
  void set_added(const json& token, int64_t number) {
    const auto text = token.at("content").get<std::string>();
    for (const char* const takes : {"lstrip", "rstrip", "single_word"})
      check(!token.value(takes, false),
            "the token '{}' has {}, which llama.cpp ignores: its tokens would be others", text,
            takes);
    set(number, text, token.value("special", false) ? gguf_control_token : gguf_users_token);
  }
  std::optional<int64_t> find(const std::string& text) const {
    const auto found = std::ranges::find(texts, text);
    if (text.empty() || found == texts.end()) return {};
    return found - texts.begin();
  }
};

GgufTokens tokens_of_bpe(const json& tokenizer, int64_t vocabulary) {
  GgufTokens tokens(vocabulary);
  for (const auto& [text, number] : tokenizer.at("model").at("vocab").items())
    tokens.set(number.get<int64_t>(), text, gguf_normal_token);
  for (const json& token : tokenizer.value("added_tokens", json::array()))
    tokens.set_added(token, token.at("id").get<int64_t>());
  return tokens;
}

// Adds the tokens that begin and end a text, and the other special tokens.
void add_ends(GgufWriter& file, const Tokenizer& tokenizer, const FilesBesideTokenizer& beside,
              const GgufTokens& tokens) {
  const json names = special_token_names(beside);
  const auto said = [&](const char* name) { return tokens.find(names.value(name, "")); };
  const std::vector<int32_t> before = tokenizer.before_text(), after = tokenizer.after_text();
  const int64_t end = said("eos_token").value_or(tokenizer.end_of_text());
  check(before.size() <= 1 && (after.empty() || (after.size() == 1 && after.front() == end)),
        "the tokenizer puts {} before each text and {} after it: expected at most one, and the "
        "token that ends a text, as a GGUF file has them",
        counted(std::ssize(before), "token"), counted(std::ssize(after), "token"));
  const auto add = [&](const char* key, std::optional<int64_t> token) {
    if (token) file.count(fmt::format("tokenizer.ggml.{}_token_id", key), *token);
  };
  add("bos", before.empty() ? said("bos_token") : before.front());
  add("eos", end);
  add("unknown", said("unk_token"));
  add("padding", said("pad_token"));
  file.flag("tokenizer.ggml.add_bos_token", !before.empty());
  file.flag("tokenizer.ggml.add_eos_token", !after.empty());
}

void add_chat_template(GgufWriter& file, const TokenizerFiles& from, const json& config) {
  const std::string_view apart = content_of_file(from, "chat_template.jinja");
  if (!apart.empty()) return file.text("tokenizer.chat_template", apart);
  const auto form = config.find("chat_template");
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

void add_bpe(GgufWriter& file, const TokenizerFiles& from, const FilesBesideTokenizer& beside,
             int64_t vocabulary) {
  const json tokenizer = tokenizer_json_of(from, beside);
  const std::string splits_as = gguf_name_of_splitting(tokenizer);
  const GgufTokens tokens = tokens_of_bpe(tokenizer, vocabulary);
  std::vector<std::string> merges;
  std::ranges::transform(tokenizer.at("model").at("merges"), std::back_inserter(merges), merge_of);
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", splits_as);
  file.texts("tokenizer.ggml.tokens", tokens.texts);
  file.integers("tokenizer.ggml.token_type", tokens.types);
  file.texts("tokenizer.ggml.merges", merges);
  add_ends(file, *from.tokenizer, beside, tokens);
}

void add_pieces(GgufWriter& file, const SentencePieces& pieces, const Tokenizer& tokenizer,
                const FilesBesideTokenizer& beside, int64_t vocabulary) {
  GgufTokens tokens(vocabulary);
  std::vector<float> scores(static_cast<size_t>(vocabulary), unused_score);
  for (size_t i = 0; i < pieces.pieces.size(); ++i) {
    const auto kind = pieces.kinds[i];
    // User-defined pieces are found in a text that still has plain spaces.
    const bool is_as_it_is = kind == SentencePieces::Kind::user_defined;
    tokens.set(static_cast<int64_t>(i),
               is_as_it_is ? with_plain_spaces(pieces.pieces[i]) : pieces.pieces[i],
               static_cast<int32_t>(kind));
    scores[i] = pieces.scores[i];
  }
  file.text("tokenizer.ggml.model", "llama");
  file.text("tokenizer.ggml.pre", "default");
  file.texts("tokenizer.ggml.tokens", tokens.texts);
  file.numbers("tokenizer.ggml.scores", scores);
  file.integers("tokenizer.ggml.token_type", tokens.types);
  file.flag("tokenizer.ggml.add_space_prefix", pieces.adds_space);
  add_ends(file, tokenizer, beside, tokens);
}

}  // namespace

void add_gguf_tokenizer(GgufWriter& file, const GgufFile& from, int64_t vocabulary) {
  const int64_t tokens = std::ssize(from.required_texts("tokenizer.ggml.tokens"));
  check(
      tokens == vocabulary,
      "the tokenizer of '{}' has {} tokens, but the model {}: expected the one that it learned by",
      from.path().string(), tokens, vocabulary);
  file.copy_keys(from, "tokenizer.");
}

void add_gguf_tokenizer(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary) {
  check(from.tokenizer->size() <= vocabulary,
        "the tokenizer has {} tokens, but the model {}: expected the one that it learned by",
        from.tokenizer->size(), vocabulary);
  try {
    const FilesBesideTokenizer beside = files_beside_tokenizer(from.files, from.name());
    if (const SentencePieces* const pieces = sentencepieces_in(*from.tokenizer))
      add_pieces(file, *pieces, *from.tokenizer, beside, vocabulary);
    else add_bpe(file, from, beside, vocabulary);
    add_chat_template(file, from, beside.config);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // from JSON, or from the number of a token
    fail("the tokenizer in {} is not one of a byte-level BPE: {}", from.name(), error.what());
  }
}

}  // namespace accrue
