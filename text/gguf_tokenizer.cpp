#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/sentencepiece.h"
#include "text/tokenizer_file.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr const char* qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How a text is prepared and split. GGUF files contain only a name for it.
struct Splitting {
  json steps;  // before bytes become letters
  bool splits_as_gpt2 = false;
  bool composes = false;  // into Unicode's form C
  bool takes_whole_words = false;
};

json split_by(const char* words) {
  return json::array({{{"type", "Split"},
                       {"pattern", {{"Regex", words}}},
                       {"behavior", "Isolated"},
                       {"invert", false}}});
}

constexpr std::array<std::string_view, 4> names_of_splittings{"gpt-2", "smollm", "qwen2",
                                                              "llama-bpe"};

// The same steps as in the tokenizer.json of the models that llama.cpp names the methods after.
Splitting splitting_of(std::string_view name) {
  if (name == "gpt-2") return {.steps = json::array(), .splits_as_gpt2 = true};
  if (name == "smollm")
    return {.steps = json::array({{{"type", "Digits"}, {"individual_digits", true}}}),
            .splits_as_gpt2 = true};
  if (name == "qwen2") return {.steps = split_by(qwen2_words), .composes = true};
  return {.steps = split_by(llama3_words), .takes_whole_words = true};
}

Splitting splitting_of(const GgufFile& file) {
  const std::string_view name = file.required_text("tokenizer.ggml.pre");
  check(std::ranges::find(names_of_splittings, name) != names_of_splittings.end(),
        "'{}' splits texts as '{}' (tokenizer.ggml.pre), expected gpt-2, smollm, qwen2 or "
        "llama-bpe",
        file.path().string(), name);
  return splitting_of(name);
}

json tokenizer_of(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  const auto types = file.integers("tokenizer.ggml.token_type");
  check(!types || types->size() == tokens.size(),
        "'{}' has {} tokens and tokenizer.ggml.token_type for {} of them", file.path().string(),
        tokens.size(), types ? types->size() : 0);
  json added = json::array(), vocabulary = json::object();
  for (size_t i = 0; i < tokens.size(); ++i) {
    check(vocabulary.emplace(tokens[i], i).second, "'{}' has the token '{}' twice",
          file.path().string(), tokens[i]);
    const int64_t type = types ? (*types)[i] : 0;
    if (type == gguf_control_token || type == gguf_users_token)
      added.push_back(added_token(static_cast<int64_t>(i), tokens[i], type == gguf_control_token));
  }
  Splitting splitting = splitting_of(file);
  splitting.steps.push_back(byte_level_step(splitting.splits_as_gpt2));
  json tokenizer = byte_level_bpe(std::move(vocabulary),
                                  file.required_texts("tokenizer.ggml.merges"), std::move(added));
  if (splitting.composes) tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", splitting.steps}};
  tokenizer["model"]["ignore_merges"] = splitting.takes_whole_words;
  return tokenizer;
}

std::optional<int32_t> ending_token(const GgufFile& file, size_t tokens) {
  const auto end = file.integer("tokenizer.ggml.eos_token_id");
  if (!end) return {};
  check(*end >= 0 && *end < static_cast<int64_t>(tokens),
        "'{}': tokenizer.ggml.eos_token_id is {}, expected one of {} tokens", file.path().string(),
        *end, tokens);
  return static_cast<int32_t>(*end);
}

// The tokens before and after each text. llama.cpp's defaults apply if the file does not say them.
struct AddedAround {
  std::vector<int32_t> before{}, after{};
};

AddedAround added_around(const GgufFile& file, size_t tokens) {
  const bool has_pieces = file.required_text("tokenizer.ggml.model") == "llama";
  const bool begins = has_pieces || file.text("tokenizer.ggml.pre").value_or("") == "llama-bpe";
  const std::string where = file.path().string();
  AddedAround around;
  if (file.flag("tokenizer.ggml.add_bos_token").value_or(begins)) {
    const auto said = file.integer("tokenizer.ggml.bos_token_id");
    const bool is_asked = file.flag("tokenizer.ggml.add_bos_token").value_or(false);
    check(said || !is_asked || has_pieces,
          "'{}' begins texts with a token (tokenizer.ggml.add_bos_token), and lacks the key "
          "'tokenizer.ggml.bos_token_id'",
          where);
    const int64_t token = said.value_or(1);
    check(!said || (token >= 0 && token < static_cast<int64_t>(tokens)),
          "'{}': tokenizer.ggml.bos_token_id is {}, expected one of {} tokens", where, token,
          tokens);
    if (said || (has_pieces && tokens > 1)) around.before = {static_cast<int32_t>(token)};
  }
  if (file.flag("tokenizer.ggml.add_eos_token").value_or(false)) {
    const auto end = ending_token(file, tokens);
    check(end.has_value(),
          "'{}' ends texts with a token (tokenizer.ggml.add_eos_token), and lacks the key "
          "'tokenizer.ggml.eos_token_id'",
          where);
    around.after = {*end};
  }
  return around;
}

// A post_processor in the format of `tokenizers`.
json template_of(const AddedAround& around, const std::vector<std::string_view>& tokens) {
  json parts = json::array(), special = json::object();
  const auto put = [&](const std::vector<int32_t>& which) {
    for (const int32_t token : which) {
      const std::string name(tokens[static_cast<size_t>(token)]);
      parts.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      special[name] = {{"id", name}, {"ids", {token}}, {"tokens", {name}}};
    }
  };
  put(around.before);
  parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put(around.after);
  json pair = parts;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", parts},
          {"pair", pair},
          {"special_tokens", special}};
}

json config_of(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  json config = json::object();
  if (const auto end = ending_token(file, tokens.size()))
    config["eos_token"] = tokens[static_cast<size_t>(*end)];
  for (const auto& [key, name] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token"),
                                  std::pair("tokenizer.ggml.unknown_token_id", "unk_token"),
                                  std::pair("tokenizer.ggml.padding_token_id", "pad_token")})
    if (const auto token = file.integer(key);
        token && *token >= 0 && *token < static_cast<int64_t>(tokens.size()))
      config[name] = tokens[static_cast<size_t>(*token)];
  if (const auto form = file.text("tokenizer.chat_template")) config["chat_template"] = *form;
  return config;
}

std::string text_of_json(const json& value, const GgufFile& file) {
  try {
    return value.dump();
  } catch (const json::exception&) {
    fail("'{}' has a token, a merge or a chat template that is not UTF-8", file.path().string());
  }
}

SentencePieces sentencepieces_of(const GgufFile& file,
                                 const std::vector<std::string_view>& tokens) {
  const std::string name = file.path().string();
  check(!file.flag("tokenizer.ggml.remove_extra_whitespaces").value_or(false) &&
            file.integers("tokenizer.ggml.precompiled_charsmap")
                .value_or(std::vector<int64_t>())
                .empty(),
        "'{}' normalizes texts (tokenizer.ggml.remove_extra_whitespaces or precompiled_charsmap), "
        "which is not supported",
        name);
  SentencePieces pieces{.name = name, .pieces{tokens.begin(), tokens.end()}};
  const auto scores = file.numbers("tokenizer.ggml.scores");
  const auto types = file.integers("tokenizer.ggml.token_type");
  check(scores && types, "'{}' lacks the key 'tokenizer.ggml.{}' of a SentencePiece model", name,
        scores ? "token_type" : "scores");
  for (const double score : *scores) pieces.scores.push_back(static_cast<float>(score));
  for (const int64_t type : *types) {
    check(1 <= type && type <= 6, "'{}': a token is of type {}, expected 1 to 6", name, type);
    pieces.kinds.push_back(static_cast<SentencePieces::Kind>(type));
  }
  // llama.cpp finds user-defined tokens in a text before it replaces the spaces.
  for (size_t i = 0; i < std::min(pieces.pieces.size(), pieces.kinds.size()); ++i)
    if (pieces.kinds[i] == SentencePieces::Kind::user_defined)
      pieces.pieces[i] = as_piece(pieces.pieces[i]);
  pieces.adds_space = file.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  if (const auto end = ending_token(file, tokens.size())) pieces.end_of_text = *end;
  AddedAround around = added_around(file, tokens.size());
  pieces.before_text = std::move(around.before);
  pieces.after_text = std::move(around.after);
  return pieces;
}

// Keeps only the fields that decide where a text is split.
json essence_of(const json& step) {
  json kept = json::object();
  for (const char* const key :
       {"type", "pattern", "behavior", "invert", "individual_digits", "add_prefix_space"})
    if (step.contains(key)) kept[key] = step[key];
  if (step.value("type", "") == "ByteLevel") kept["use_regex"] = step.value("use_regex", true);
  return kept;
}

json essence_of_steps(const json& before) {
  json steps = json::array();
  if (before.is_object() && before.value("type", "") == "Sequence")
    for (const json& step : before.at("pretokenizers")) steps.push_back(essence_of(step));
  else steps.push_back(essence_of(before));
  return steps;
}

}  // namespace

std::string gguf_name_of_splitting(const json& tokenizer) {
  const json model = tokenizer.at("model");
  const json normalizer = tokenizer.value("normalizer", json());
  const json steps = essence_of_steps(tokenizer.value("pre_tokenizer", json()));
  check(model.value("type", "BPE") == "BPE" && !model.value("byte_fallback", false),
        "a tokenizer of kind {} is not written to GGUF files here: expected a byte-level BPE",
        model.value("type", "BPE"));
  const bool takes_whole_words = model.value("ignore_merges", false);
  for (const std::string_view name : names_of_splittings) {
    Splitting splitting = splitting_of(name);
    splitting.steps.push_back(byte_level_step(splitting.splits_as_gpt2));
    const json composes = {{"type", "NFC"}};
    if (essence_of_steps({{"type", "Sequence"}, {"pretokenizers", splitting.steps}}) == steps &&
        normalizer == (splitting.composes ? composes : json()) &&
        takes_whole_words == splitting.takes_whole_words)
      return std::string(name);
  }
  fail(
      "the tokenizer splits texts in a way that has no name in GGUF files here: expected that of "
      "GPT-2, SmolLM, Qwen2 or Llama 3, or the GGUF file of the model it comes from");
}

TokenizerFiles read_gguf_tokenizer(const GgufFile& file) {
  const std::string_view kind = file.required_text("tokenizer.ggml.model");
  check(kind == "gpt2" || kind == "llama",
        "'{}' has a tokenizer of kind '{}' (tokenizer.ggml.model), expected gpt2, a byte-level "
        "BPE, or llama, one of SentencePiece",
        file.path().string(), kind);
  const auto tokens = file.required_texts("tokenizer.ggml.tokens");
  const std::string config = text_of_json(config_of(file, tokens), file);
  if (kind == "llama")
    return {make_sentencepiece_bpe(sentencepieces_of(file, tokens)),
            {{"tokenizer.gguf", file.only_keys("tokenizer.")}, {"tokenizer_config.json", config}}};
  json whole = tokenizer_of(file, tokens);
  const AddedAround around = added_around(file, tokens.size());
  if (!around.before.empty() || !around.after.empty())
    whole["post_processor"] = template_of(around, tokens);
  const std::string tokenizer = text_of_json(whole, file);
  return {parse_tokenizer(tokenizer, file.path().string(), config),
          {{"tokenizer.json", tokenizer}, {"tokenizer_config.json", config}}};
}

}  // namespace accrue
