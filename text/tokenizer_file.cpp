#include "text/tokenizer_file.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/strict_json.h"
#include "text/bpe_reader.h"
#include "text/gguf_tokenizer.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Parsing takes memory in proportion.
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

// The tokenizer_config.json in a directory; an empty object if there is none.
json config_in(const fs::path& directory) {
  const fs::path path = directory / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return json::object();
  json config = json_of(path);
  check(config.is_object(), "'{}' is not an object", path.string());
  return config;
}

// A text, or an object with it as its content.
std::string token_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const json content = value.is_object() ? value.value("content", json()) : json();
  return content.is_string() ? content.get<std::string>() : "";
}

TokenizerPtr finish(BpeReader reader, const json& config) {
  const std::string named = token_of(config.value("eos_token", json()));
  if (!named.empty()) reader.end_texts_with(named);
  else if (reader.has_token(end_of_text)) reader.end_texts_with(end_of_text);
  reader.check_end_of_texts();
  return make_bpe(reader.take());
}

TokenizerPtr make_tokenizer(const std::string& text, const std::string& what, const json& config) {
  BpeReader reader(what);
  reader.read_tokenizer(parse(text, what));
  return finish(std::move(reader), config);
}

TokenizerPtr read_tokenizer_json(const fs::path& path) {
  return make_tokenizer(text_of(path), path.string(), config_in(path.parent_path()));
}

// GPT-2's own files, which say nothing of how a text is split.
TokenizerPtr read_gpt2(const fs::path& vocabulary, const fs::path& merges) {
  const json config = config_in(vocabulary.parent_path());
  const json kind = config.value("tokenizer_class", json("GPT2Tokenizer"));
  check(kind == "GPT2Tokenizer" || kind == "GPT2TokenizerFast",
        "'{}' are of a {}, which splits a text otherwise than GPT-2: expected a tokenizer.json",
        merges.parent_path().string(), kind.dump());
  BpeReader reader(vocabulary.string());
  reader.read_vocabulary(json_of(vocabulary));
  reader.read_merges(text_of(merges));
  reader.split_as_gpt2(config.value("add_prefix_space", json(false)) == true);
  if (reader.has_token(end_of_text)) reader.find_in_texts(end_of_text);
  return finish(std::move(reader), config);
}

}  // namespace

TokenizerPtr parse_tokenizer(const std::string& text, const std::string& what,
                             const std::string& config) {
  return make_tokenizer(text, what, parse(config, what));
}

TokenizerPtr read_tokenizer(const fs::path& path) {
  return reading(path.string(), [&] {
    std::error_code ignored;
    const auto has = [&](const char* name) { return fs::exists(path / name, ignored); };
    if (!fs::is_directory(path, ignored)) return read_tokenizer_json(path);
    if (has("tokenizer.json")) return read_tokenizer_json(path / "tokenizer.json");
    if (has("tokenizer.gguf"))
      return read_gguf_tokenizer(GgufFile(path / "tokenizer.gguf")).tokenizer;
    if (has("encoder.json") && has("vocab.bpe"))
      return read_gpt2(path / "encoder.json", path / "vocab.bpe");
    if (has("vocab.json") && has("merges.txt"))
      return read_gpt2(path / "vocab.json", path / "merges.txt");
    fail(
        "'{}' holds no tokenizer: expected a tokenizer.json, a tokenizer.gguf, vocab.bpe and "
        "encoder.json, or merges.txt and vocab.json",
        path.string());
  });
}

}  // namespace accrue
