#include "text/tokenizers.h"

#include <array>
#include <filesystem>

#include "core/error.h"
#include "data/byte_stream.h"
#include "text/chat_template.h"
#include "text/corpus.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"

namespace accrue {

namespace {

constexpr std::array all_files{
    "tokenizer.json",    "tokenizer.gguf",        "tokenizer.model",
    "vocab.bpe",         "encoder.json",          "merges.txt",
    "vocab.json",        "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja"};
constexpr std::span files_of_gpt2 = std::span(all_files).subspan(3, 4),
                    files_beside = std::span(all_files).subspan(7);

bool is_gguf(const std::string& name) { return name.ends_with(".gguf"); }

}  // namespace

std::span<const char* const> names_of_tokenizer_files() { return all_files; }

TokenizerPtr tokenizer_at(const std::string& name) {
  if (is_gguf(name)) return read_gguf_tokenizer(GgufFile(name)).tokenizer;
  return name == "bytes" ? bytes_tokenizer() : read_tokenizer(name);
}

TokenizerFiles tokenizer_with_files(const std::string& name) {
  namespace fs = std::filesystem;
  if (is_gguf(name)) return read_gguf_tokenizer(GgufFile(name));
  TokenizerFiles result{tokenizer_at(name)};
  if (name == "bytes") return result;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(name, ignored);
  const fs::path folder = is_folder ? fs::path(name) : fs::path(name).parent_path();
  const auto keep = [&](const fs::path& file, const std::string& as) {
    if (!fs::is_regular_file(file, ignored)) return false;
    const std::vector<std::byte> content = file_content(file);
    result.files[as].assign(reinterpret_cast<const char*>(content.data()), content.size());
    return true;
  };
  for (const char* const file : files_beside) keep(folder / file, file);
  ChatTemplate::take_additional(folder, result.files);
  const bool is_model = !is_folder && name.ends_with(".model");
  const bool has_model =
      (is_folder || is_model) &&
      keep(is_model ? fs::path(name) : folder / "tokenizer.model", "tokenizer.model");
  if (is_model) return result;
  const fs::path whole = is_folder ? folder / "tokenizer.json" : fs::path(name);
  if (keep(whole, "tokenizer.json") || keep(folder / "tokenizer.gguf", "tokenizer.gguf"))
    return result;
  if (has_model) return result;
  for (const char* const file : files_of_gpt2) keep(folder / file, file);
  return result;
}

TokenizerFiles trained_tokenizer(const WordCounts& words, int64_t vocabulary_size) {
  const std::string content = train_bpe(words, vocabulary_size);
  return {parse_tokenizer(content, "the tokenizer that was learned"),
          {{"tokenizer.json", content}}};
}

TokenizerPtr Corpus::tokenizer() const {
  check(!facts_.tokenizer.empty(), "{} does not say which tokenizer made its tokens",
        facts_.source);
  if (facts_.tokenizer == "bytes") return bytes_tokenizer();
  return read_tokenizer(std::filesystem::path(facts_.tokenizer).parent_path());
}

}  // namespace accrue
