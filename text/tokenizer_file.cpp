#include "text/tokenizer_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"
#include "text/bpe_reader.h"
#include "text/gguf_tokenizer.h"
#include "text/sentencepiece_model.h"
#include "text/special_tokens.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Parsing takes memory in proportion to the file's size.
constexpr uint64_t max_file_bytes = 256 << 20;
constexpr int max_depth = 16;
constexpr int64_t max_elements = 16 << 20;
constexpr const char* end_of_text = "<|endoftext|>";

std::string text_of(const fs::path& path) {
  check(InputFile(path).size() <= max_file_bytes,
        "'{}' is too large to be a tokenizer: more than {} bytes", path.string(), max_file_bytes);
  const auto bytes = file_content(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json parse(const std::string& text, const std::string& what) {
  return parse_strict_json(text, max_depth, fmt::format("'{}'", what), max_elements);
}
json json_of(const fs::path& path) { return parse(text_of(path), path.string()); }

// A JSON object in a file of a directory; empty if the file is missing.
json object_in(const fs::path& directory, const char* name) {
  const fs::path path = directory / name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return json::object();
  json object = json_of(path);
  check(object.is_object(), "'{}' is not an object", path.string());
  return object;
}

FilesBesideTokenizer files_in(const fs::path& directory) {
  return {object_in(directory, "tokenizer_config.json"),
          object_in(directory, "special_tokens_map.json"),
          object_in(directory, "added_tokens.json")};
}

TokenizerPtr make_tokenizer(json tokenizer, const std::string& what,
                            const FilesBesideTokenizer& beside) {
  add_special_tokens(tokenizer, beside, what);
  BpeReader reader(what);
  reader.read_tokenizer(tokenizer);
  const json named = special_token_names(beside);
  if (named.contains("eos_token")) reader.end_texts_with(named["eos_token"]);
  else if (reader.has_token(end_of_text)) reader.end_texts_with(end_of_text);
  reader.check_end_of_texts();
  return make_bpe(reader.take());
}

TokenizerPtr read_tokenizer_json(const fs::path& path) {
  return make_tokenizer(json_of(path), path.string(), files_in(path.parent_path()));
}

// Reads GPT-2's own files, which do not say how to split a text.
TokenizerPtr read_gpt2(const fs::path& vocabulary, const fs::path& merges) {
  const FilesBesideTokenizer beside = files_in(vocabulary.parent_path());
  const json kind = beside.config.value("tokenizer_class", json("GPT2Tokenizer"));
  check(kind == "GPT2Tokenizer" || kind == "GPT2TokenizerFast",
        "'{}' are of a {}, which splits a text otherwise than GPT-2: expected a tokenizer.json",
        merges.parent_path().string(), kind.dump());
  json tokenizer = json_of_gpt2(json_of(vocabulary), text_of(merges), beside.config);
  return make_tokenizer(std::move(tokenizer), vocabulary.string(), beside);
}

}  // namespace

TokenizerPtr parse_tokenizer(const std::string& text, const std::string& what,
                             const std::string& config) {
  return make_tokenizer(parse(text, what), what, {.config = parse(config, what)});
}

TokenizerPtr read_tokenizer(const fs::path& path) {
  return reading(path.string(), [&] {
    std::error_code ignored;
    const auto has = [&](const char* name) { return fs::exists(path / name, ignored); };
    if (!fs::is_directory(path, ignored) && path.extension() == ".model")
      return make_sentencepiece_bpe(
          read_sentencepiece_model(text_of(path), files_in(path.parent_path()), path.string()));
    if (!fs::is_directory(path, ignored)) return read_tokenizer_json(path);
    if (has("tokenizer.model") &&
        (!has("tokenizer.json") || is_of_sentencepiece(json_of(path / "tokenizer.json"))))
      return make_sentencepiece_bpe(read_sentencepiece_model(
          text_of(path / "tokenizer.model"), files_in(path), (path / "tokenizer.model").string()));
    if (has("tokenizer.json")) return read_tokenizer_json(path / "tokenizer.json");
    if (has("tokenizer.gguf"))
      return read_gguf_tokenizer(GgufFile(path / "tokenizer.gguf")).tokenizer;
    if (has("encoder.json") && has("vocab.bpe"))
      return read_gpt2(path / "encoder.json", path / "vocab.bpe");
    if (has("vocab.json") && has("merges.txt"))
      return read_gpt2(path / "vocab.json", path / "merges.txt");
    fail(
        "'{}' holds no tokenizer: expected a tokenizer.json, a tokenizer.gguf, a tokenizer.model, "
        "vocab.bpe and encoder.json, or merges.txt and vocab.json",
        path.string());
  });
}

json byte_level_bpe(json vocabulary, json merges, json added_tokens) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level_step(true)},
          {"post_processor", nullptr},
          {"decoder", byte_level_step(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

json added_token(int64_t number, std::string_view content, bool is_special) {
  return {{"id", number},    {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

json byte_level_step(bool splits_as_gpt2) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", splits_as_gpt2}};
}

namespace {

json merges_in(std::string_view text) {
  json merges = json::array();
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("#version") && !(line.empty() && rest.empty())) merges.push_back(line);
  }
  return merges;
}

}  // namespace

json json_of_gpt2(json vocabulary, std::string_view merges, const json& config) {
  constexpr const char* end_of_text = "<|endoftext|>";
  json added = json::array();
  if (vocabulary.is_object() && vocabulary.contains(end_of_text)) {
    added.push_back(added_token(0, end_of_text, true));
    added.back()["id"] = vocabulary[end_of_text];
  }
  json whole = byte_level_bpe(std::move(vocabulary), merges_in(merges), std::move(added));
  whole["pre_tokenizer"]["add_prefix_space"] =
      config.value("add_prefix_space", json(false)) == true;
  return whole;
}

}  // namespace accrue
