// Corpora as directories of files.

#include <zlib.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"
#include "data/mapped_file.h"
#include "data/new_directory.h"
#include "data/strict_json.h"
#include "text/corpus.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *tokens_file = "tokens.bin", *documents_file = "documents.bin",
                     *sections_file = "sections.bin", *learned_file = "learned.bin";
constexpr const char* format_name = "accrue corpus";
// Versions of accrue that do not know preferences refuse version 2 instead of misreading it.
constexpr int64_t format_version = 1, version_of_preferences = 2;

constexpr int bytes_of_token(int64_t vocabulary) { return vocabulary <= 65'536 ? 2 : 4; }

void check_samples(const CorpusFacts& facts, int64_t documents) {
  check(documents % facts.texts_of_sample == 0,
        "{} has {} documents: expected a multiple of the {} texts of a sample", facts.source,
        documents, facts.texts_of_sample);
}

uint32_t checksum_of(uint32_t tokens, uint32_t ends, uint32_t learned) {
  const std::string text = fmt::format("{:08x} {:08x} {:08x}", tokens, ends, learned);
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

}  // namespace

// Not an anonymous namespace, because CorpusWriter has members of these types.
namespace corpus_files {

// A column of numbers, which is written to a file as it grows, or kept in memory.
class Column {
 public:
  // Begins a file.
  void open(const fs::path& path) { file_ = std::make_unique<AtomicFile>(path); }

  template <class T>
  void add(T number) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof number);
    constexpr size_t most_held = size_t{1} << 20;
    if (file_ && bytes_.size() >= most_held) write();
  }
  // Writes the rest. The file appears only now.
  void finish() {
    write();
    if (file_) file_->commit();
  }
  uint32_t crc() const { return static_cast<uint32_t>(crc_); }
  std::span<const std::byte> bytes() const { return bytes_; }
  template <class T>
  std::span<const T> numbers() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  void write() {
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes_.data()), bytes_.size());
    if (!file_) return;
    file_->write(bytes_);
    bytes_.clear();
  }

  std::unique_ptr<AtomicFile> file_;
  std::vector<std::byte> bytes_;
  uLong crc_ = crc32_z(0, nullptr, 0);
};

// The columns of a corpus.
struct Columns {
  Column tokens, ends, sections, learned;
  int64_t size = 0, documents = 0, learned_tokens = 0;
  uint8_t bits = 0;  // the last bits, which are not in `learned` yet
  // The length of the current document, and the hash of its current section.
  int64_t length = 0;
  SectionHash hash;

  void append(std::span<const int32_t> part, std::span<const uint8_t> is_learned, int width) {
    for (size_t i = 0; i < part.size(); ++i) {
      const int32_t token = part[i];
      if (width == 2) tokens.add(static_cast<uint16_t>(token));
      else tokens.add(static_cast<uint32_t>(token));
      hash.add(token);
      if (++length % section_tokens == 0) sections.add(std::exchange(hash, {}).value());
      const bool counts = is_learned.empty() || is_learned[i] != 0;
      learned_tokens += counts;
      bits = static_cast<uint8_t>(bits | counts << size % 8);
      if (++size % 8 == 0) learned.add(std::exchange(bits, uint8_t{0}));
    }
  }
  void end_document() {
    if (std::exchange(length, 0) % section_tokens != 0)
      sections.add(std::exchange(hash, {}).value());
    ends.add(static_cast<uint64_t>(size));
    ++documents;
  }
  bool is_all_learned() const { return learned_tokens == size; }
  void finish() {
    if (size % 8 != 0) learned.add(bits);
    tokens.finish();
    ends.finish();
    sections.finish();
    if (!is_all_learned()) learned.finish();
  }
  uint32_t checksum() const {
    return checksum_of(tokens.crc(), ends.crc(), is_all_learned() ? 0 : learned.crc());
  }
};

}  // namespace corpus_files

using corpus_files::Column, corpus_files::Columns;

struct CorpusWriter::Files {
  CorpusFacts facts;
  std::string name;  // of the directory
  std::unique_ptr<NewDirectory> directory;
  Columns columns;

  void write_facts() const;
  CorpusPtr in_memory();
};

CorpusWriter::CorpusWriter(CorpusFacts facts, const std::string& directory,
                           const TokenizerFiles& tokenizer)
    : files_(std::make_unique<Files>()) {
  files_->facts = std::move(facts);
  files_->name = directory;
  check(0 < files_->facts.hold_out && files_->facts.hold_out < 1,
        "a share of {} to hold out: expected one between 0 and 1", files_->facts.hold_out);
  if (directory.empty()) return;
  files_->directory = std::make_unique<NewDirectory>(directory);
  const fs::path path = files_->directory->path();
  Columns& columns = files_->columns;
  for (const auto& [column, file] :
       {std::pair{&columns.tokens, tokens_file}, std::pair{&columns.ends, documents_file},
        std::pair{&columns.sections, sections_file}, std::pair{&columns.learned, learned_file}})
    column->open(path / file);
  for (const auto& [file, content] : tokenizer) files_->directory->write(path / file, content);
}

CorpusWriter::~CorpusWriter() = default;

void CorpusWriter::set_texts_of_sample(int64_t texts, bool has_preferences) {
  files_->facts.texts_of_sample = texts;
  files_->facts.has_preferences = has_preferences;
}
void CorpusWriter::set_chat(std::string form) { files_->facts.chat = std::move(form); }
int64_t CorpusWriter::documents() const { return files_->columns.documents; }
int64_t CorpusWriter::tokens() const { return files_->columns.size; }
int64_t CorpusWriter::learned() const { return files_->columns.learned_tokens; }

void CorpusWriter::append(std::span<const int32_t> tokens, std::span<const uint8_t> learned) {
  check(learned.empty() || learned.size() == tokens.size(),
        "there are {} flags of tokens to be learned, but {} tokens", learned.size(), tokens.size());
  const int64_t V = files_->facts.vocabulary;
  for (const int32_t token : tokens)
    check(0 <= token && token < V, "token {} is outside [0, {})", token, V);
  files_->columns.append(tokens, learned, bytes_of_token(V));
}

void CorpusWriter::end_document() {
  check(files_->columns.length > 0, "a document has no tokens");
  files_->columns.end_document();
}

void CorpusWriter::Files::write_facts() const {
  const auto hex = [](const Column& column) { return fmt::format("{:08x}", column.crc()); };
  nlohmann::ordered_json crcs{{tokens_file, hex(columns.tokens)},
                              {documents_file, hex(columns.ends)},
                              {sections_file, hex(columns.sections)}};
  if (!columns.is_all_learned()) crcs[learned_file] = hex(columns.learned);
  nlohmann::ordered_json content{
      {"format", format_name},
      {"version", facts.has_preferences ? version_of_preferences : format_version},
      {"tokenizer",
       facts.tokenizer == "bytes" ? "bytes" : fs::path(facts.tokenizer).filename().string()},
      {"vocabulary", facts.vocabulary},
      {"end_of_text", facts.end_of_text},
      {"documents", columns.documents},
      {"tokens", columns.size},
      {"learned", columns.learned_tokens},
      {"hold_out", facts.hold_out},
      {"source", facts.source},
      {"crc32", crcs}};
  if (!facts.tokenizer_checksum.empty()) content["tokenizer_checksum"] = facts.tokenizer_checksum;
  if (!facts.chat.empty()) content["chat"] = facts.chat;
  if (facts.control == ControlInTexts::letters) content["text_may_contain_control"] = "no";
  if (facts.texts_of_sample > 1) content["texts_of_sample"] = facts.texts_of_sample;
  if (facts.has_preferences) content["preferences"] = true;
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
  directory->write(directory->path() / corpus_facts_file,
                   content.dump(2, ' ', false, replace) + "\n");
}

CorpusPtr CorpusWriter::Files::in_memory() {
  const auto kept = std::make_shared<const Columns>(std::move(columns));
  Corpus::Parts parts{.token_bytes = bytes_of_token(facts.vocabulary),
                      .tokens = {kept->tokens.bytes()},
                      .documents =
                          [kept] {
                            return Corpus::Documents{kept->ends.numbers<uint64_t>(),
                                                     kept->sections.numbers<uint64_t>()};
                          },
                      .checksum = [kept] { return kept->checksum(); },
                      .keeps = kept};
  if (!kept->is_all_learned()) parts.learned = kept->learned.bytes();
  return std::make_shared<const Corpus>(facts, std::move(parts));
}

CorpusPtr CorpusWriter::finish() {
  Columns& columns = files_->columns;
  check(columns.documents > 0, "{} has no documents: expected at least one", files_->facts.source);
  check_samples(files_->facts, columns.documents);
  columns.finish();
  if (!files_->directory) return files_->in_memory();
  files_->write_facts();
  columns.learned = {};  // may be incomplete, and then leaves no file
  files_->directory->commit();
  return open_corpus(files_->name);
}

namespace {

// The contents of corpus.json.
struct FactsSaid {
  CorpusFacts facts;
  int64_t documents, tokens, learned;
  uint32_t crc_tokens = 0, crc_documents = 0, crc_learned = 0;
};

uint32_t crc_said(const json& crcs, const char* file, const std::string& where) {
  const json value = crcs.value(file, json());
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool is_hex = text.size() == 8 && text.find_first_not_of("0123456789abcdef") == text.npos;
  check(is_hex, "{}: crc32 of {} is {}, expected 8 hexadecimal digits", where, file, value.dump());
  return static_cast<uint32_t>(std::stoul(text, nullptr, 16));
}

FactsSaid read_facts(const fs::path& file) {
  const std::string where = fmt::format("'{}'", file.string());
  const std::vector<std::byte> bytes = file_content(file);
  const json said =
      parse_strict_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 2, where);
  check(said.is_object() && said.value("format", json()) == format_name,
        "{} does not describe a corpus: expected \"format\": \"{}\"", where, format_name);
  const auto number = [&](const char* name, int64_t low, int64_t high) {
    const json value = said.value(name, json());
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(high)) &&
                      low <= value.get<int64_t>() && value.get<int64_t>() <= high;
    check(fits, "{}: {} is {}, expected {} to {}", where, name, value.dump(), low, high);
    return value.get<int64_t>();
  };
  const auto text = [&](const char* name) {
    const json value = said.value(name, json());
    check(value.is_string(), "{}: {} is {}, expected text", where, name, value.dump());
    return value.get<std::string>();
  };
  const json version = said.value("version", json());
  check(version == format_version || version == version_of_preferences,
        "{} is of version {}: expected {} or {}, which this program reads", where, version.dump(),
        format_version, version_of_preferences);
  constexpr int64_t most = int64_t{1} << 60;
  FactsSaid result{};
  CorpusFacts& facts = result.facts;
  facts.vocabulary = number("vocabulary", 1, std::numeric_limits<int32_t>::max());
  facts.end_of_text = static_cast<int32_t>(number("end_of_text", 0, facts.vocabulary - 1));
  facts.tokenizer = text("tokenizer");
  check(facts.tokenizer.find_first_of("/\\") == std::string::npos,
        "{}: tokenizer is '{}', expected \"bytes\" or a file beside it", where, facts.tokenizer);
  if (facts.tokenizer != "bytes" && !facts.tokenizer.empty())
    facts.tokenizer = (file.parent_path() / facts.tokenizer).string();
  if (said.contains("tokenizer_checksum")) facts.tokenizer_checksum = text("tokenizer_checksum");
  facts.source = text("source");
  if (said.contains("chat")) facts.chat = text("chat");
  const json share = said.value("hold_out", json(facts.hold_out));
  check(share.is_number() && 0 < share && share < 1,
        "{}: hold_out is {}, expected a number between 0 and 1", where, share.dump());
  facts.hold_out = share;
  result.tokens = number("tokens", 1, most);
  result.documents = number("documents", 1, result.tokens);
  result.learned = number("learned", 0, result.tokens);
  if (said.value("text_may_contain_control", json()) == "no")
    facts.control = ControlInTexts::letters;
  if (said.contains("texts_of_sample")) facts.texts_of_sample = number("texts_of_sample", 1, 3);
  facts.has_preferences = said.value("preferences", json(false)) == true;
  check(!facts.has_preferences || facts.texts_of_sample == 2,
        "{}: preferences are of {} texts each, expected 2", where, facts.texts_of_sample);
  check_samples(facts, result.documents);
  const json crcs = said.value("crc32", json());
  check(crcs.is_object(), "{}: crc32 is {}, expected an object", where, crcs.dump());
  result.crc_tokens = crc_said(crcs, tokens_file, where);
  result.crc_documents = crc_said(crcs, documents_file, where);
  if (result.learned < result.tokens) result.crc_learned = crc_said(crcs, learned_file, where);
  return result;
}

// The number of sections of the documents with these ends. Throws Error unless the ends ascend and
// are at most `tokens`.
int64_t check_ends(std::span<const uint64_t> ends, int64_t tokens, const fs::path& file) {
  uint64_t last = 0;
  int64_t sections = 0;
  for (size_t d = 0; d < ends.size(); ++d) {
    check(last < ends[d] && ends[d] <= uint64_t(tokens),
          "'{}': document {} ends at token {}, expected {} to {}", file.string(), d, ends[d],
          last + 1, tokens);
    sections += ceil_div(int64_t(ends[d] - last), section_tokens);
    last = ends[d];
  }
  check(last == uint64_t(tokens), "'{}': the last document ends at token {}, expected {}",
        file.string(), last, tokens);
  return sections;
}

// Maps a file. Throws Error unless it has this many bytes.
std::shared_ptr<const MappedFile> mapped(const fs::path& file, int64_t bytes) {
  auto map = std::make_shared<const MappedFile>(file);
  check(std::ssize(map->bytes()) == bytes, "'{}' has {} bytes, expected {}; copy it again",
        file.string(), map->bytes().size(), bytes);
  return map;
}

std::span<const uint64_t> numbers_in(const MappedFile& file) {
  return {reinterpret_cast<const uint64_t*>(file.bytes().data()),
          file.bytes().size() / sizeof(uint64_t)};
}

}  // namespace

CorpusPtr detail::open_corpus(const fs::path& directory) {
  FactsSaid said = read_facts(directory / corpus_facts_file);
  const fs::path path = fs::absolute(directory).lexically_normal();
  said.facts.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const int width = bytes_of_token(said.facts.vocabulary);
  constexpr auto word = int64_t(sizeof(uint64_t));
  const auto tokens = mapped(directory / tokens_file, said.tokens * width);
  const auto ends = mapped(directory / documents_file, said.documents * word);
  const int64_t count = check_ends(numbers_in(*ends), said.tokens, directory / documents_file);
  const auto sections = mapped(directory / sections_file, count * word);
  const bool is_all_learned = said.learned == said.tokens;
  const auto learned = is_all_learned
                           ? nullptr
                           : mapped(directory / learned_file, ceil_div(said.tokens, int64_t{8}));
  const uint32_t checksum = checksum_of(said.crc_tokens, said.crc_documents, said.crc_learned);
  said.facts.source = directory.string();
  Corpus::Parts parts{.token_bytes = width,
                      .tokens = {tokens->bytes()},
                      .documents =
                          [ends, sections] {
                            return Corpus::Documents{numbers_in(*ends), numbers_in(*sections)};
                          },
                      .checksum = [checksum] { return checksum; },
                      .keeps = std::make_shared<std::array<std::shared_ptr<const MappedFile>, 4>>(
                          std::array{tokens, ends, sections, learned})};
  if (learned) parts.learned = learned->bytes();
  return std::make_shared<const Corpus>(said.facts, std::move(parts));
}

}  // namespace accrue
