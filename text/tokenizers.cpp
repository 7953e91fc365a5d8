#include "text/tokenizers.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/new_directory.h"
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

std::span<const char* const> detail::names_of_tokenizer_files() { return all_files; }

TokenizerPtr detail::tokenizer_at(const std::string& name) {
  if (is_gguf(name)) return read_gguf_tokenizer(GgufFile(name)).tokenizer;
  return name == "bytes" ? bytes_tokenizer() : read_tokenizer(name);
}

TokenizerFiles detail::tokenizer_with_files(const std::string& name) {
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

TokenizerFiles detail::trained_tokenizer(const WordCounts& words, int64_t vocabulary_size) {
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

namespace {

constexpr const char *place_name = "tokenizer", *checksum_name = "tokenizer-checksum";

// The bytes of two copies of a token, because some tokenizers drop a space at the beginning of a
// text. Numbers that are not tokens have no bytes.
std::string bytes_of_token(const Tokenizer& tokenizer, int64_t token) {
  const auto t = static_cast<int32_t>(token);
  try {
    return tokenizer.decode(std::array{t, t});
  } catch (const Error&) {
    return {};
  }
}

bool is_padding(const Tokenizer& tokenizer, int64_t token) {
  const std::string name = fmt::format("[PAD{}]", token), bytes = bytes_of_token(tokenizer, token);
  return bytes.empty() || bytes == name + name;
}

}  // namespace

std::string detail::tokenizer_checksum(const Tokenizer& tokenizer) {
  int64_t size = tokenizer.size();
  while (size > 0 && is_padding(tokenizer, size - 1)) --size;
  uLong crc = crc32_z(0, nullptr, 0);
  for (int64_t t = 0; t < size; ++t) {
    // The separator distinguishes "a", "bc" from "ab", "c".
    const std::string bytes = fmt::format("{}\n{}", bytes_of_token(tokenizer, t), t);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  return fmt::format("{:08x}", crc);
}

KnownTokenizer detail::known_tokenizer(const std::string& place) {
  const TokenizerPtr tokenizer = tokenizer_at(place);
  return {place, tokenizer_checksum(*tokenizer), tokenizer->size()};
}

KnownTokenizer detail::tokenizer_in_gguf(const std::string& path) {
  const GgufFile file(path);
  if (!file.text("tokenizer.ggml.model")) return {};
  try {
    const TokenizerPtr tokenizer = read_gguf_tokenizer(file).tokenizer;
    return {path, tokenizer_checksum(*tokenizer), tokenizer->size()};
  } catch (const Error&) {
    return {.place = path};
  }
}

KnownTokenizer detail::tokenizer_said_in(const Metadata& said) {
  const auto place = said.find(place_name), checksum = said.find(checksum_name);
  if (place == said.end() || checksum == said.end()) return {};
  return {place->second, checksum->second};
}

void detail::add_tokenizer(const KnownTokenizer& known, Metadata& metadata) {
  if (!known.is_known()) return;
  metadata[place_name] = known.place;
  metadata[checksum_name] = known.checksum;
}

KnownTokenizer detail::tokenizer_beside(const std::string& weights) {
  const std::filesystem::path file = weights, folder = file.parent_path();
  if (file.filename() != "model.safetensors") return {};
  try {
    return known_tokenizer(folder.empty() ? "." : folder.string());
  } catch (const Error&) {
    return {};
  }
}

std::string detail::tokenizer_folder_of(const std::string& weights) {
  return std::filesystem::path(weights).replace_extension(".tokenizer").string();
}

void detail::keep_tokenizer(const TokenizerFiles& tokenizer, const std::string& folder) {
  namespace fs = std::filesystem;
  make_directory(folder);
  for (const char* const file : names_of_tokenizer_files()) {
    const auto kept = tokenizer.files.find(file);
    if (kept != tokenizer.files.end()) write_text_atomically(fs::path(folder) / file, kept->second);
    else fs::remove(fs::path(folder) / file);
  }
}

std::string detail::find_tokenizer(const KnownTokenizer& known, const std::string& weights,
                                   const std::string& base) {
  namespace fs = std::filesystem;
  if (!known.is_known() || known.place == "bytes") return known.place;
  const fs::path there = known.place, folder = fs::path(weights).parent_path();
  std::vector<fs::path> places{there, folder / there, folder / there.filename(),
                               tokenizer_folder_of(weights),
                               folder.empty() ? fs::path(".") : folder};
  if (base.ends_with(".gguf")) places.emplace_back(base);
  std::string others;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (!fs::exists(place, ignored)) continue;
    try {
      const std::string checksum = known_tokenizer(place.string()).checksum;
      if (checksum == known.checksum) return place.string();
      others += fmt::format("; '{}' has the checksum {}", place.string(), checksum);
    } catch (const Error&) {
      // This place has no tokenizer.
    }
  }
  fail(
      "the tokenizer of {}, which was '{}' with the checksum {}, is neither there nor beside it{}: "
      "expected the place of the one that it learned by (the setting tokenizer)",
      weights, known.place, known.checksum, others);
}

bool detail::may_be_padded(int64_t vocabulary, int64_t tokens) {
  constexpr int64_t most = 1024, few = 127, most_of = 32;
  const int64_t unused = vocabulary - tokens;
  return 0 <= unused && unused <= std::clamp(vocabulary / most_of, few, most);
}

}  // namespace accrue
