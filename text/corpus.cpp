#include "text/corpus.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.h"
#include "core/random.h"
#include "data/mapped_file.h"
#include "data/words.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie");

// Copies tokens and returns the largest one. Tokens that would be negative as i32 count as larger
// than all others.
template <class T>
uint32_t copy_tokens(std::span<int32_t> out, const std::byte* from) {
  const auto* const tokens = reinterpret_cast<const T*>(from);
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    largest = std::max<uint32_t>(largest, tokens[i]);
    out[i] = static_cast<int32_t>(tokens[i]);
  }
  return largest;
}

}  // namespace

uint64_t SectionHash::value() const { return mix_bits(hash_); }

Corpus::Corpus(CorpusFacts facts, Parts parts)
    : facts_(std::move(facts)), parts_(std::move(parts)), begins_{0} {
  for (const auto& piece : parts_.tokens)
    begins_.push_back(begins_.back() + std::ssize(piece) / parts_.token_bytes);
}

void Corpus::read(std::span<int32_t> out, int64_t begin) const {
  check(0 <= begin && begin + std::ssize(out) <= size(),
        "tokens {} to {} are not in {}, which has {}", begin, begin + std::ssize(out),
        facts_.source, size());
  while (!out.empty()) {
    const auto next = std::ranges::upper_bound(begins_, begin);
    const auto piece = static_cast<size_t>(next - begins_.begin()) - 1;
    const std::span<int32_t> part =
        out.first(static_cast<size_t>(std::min<int64_t>(std::ssize(out), *next - begin)));
    const std::byte* const from =
        parts_.tokens[piece].data() + (begin - begins_[piece]) * parts_.token_bytes;
    const uint32_t largest = parts_.token_bytes == 2 ? copy_tokens<uint16_t>(part, from)
                                                     : copy_tokens<uint32_t>(part, from);
    if (largest >= facts_.vocabulary) {
      const auto bad = std::ranges::find(part, static_cast<int32_t>(largest)) - part.begin();
      fail("{}: token number {} is {}, expected 0 to {}; the files are damaged", facts_.source,
           begin + bad, largest, facts_.vocabulary - 1);
    }
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

const Corpus::Documents& Corpus::documents() const {
  std::call_once(asked_, [&] { documents_ = parts_.documents(); });
  return documents_;
}

// Files of llm.c, and the kinds of paths that can be opened.
namespace {

namespace fs = std::filesystem;

constexpr int32_t llmc_magic = 20240520, llmc_version = 1;
constexpr size_t llmc_header_bytes = 256 * sizeof(int32_t);
constexpr int64_t gpt2_vocabulary = 50'257;
constexpr int32_t gpt2_end_of_text = 50'256;

using Maps = std::vector<std::shared_ptr<const MappedFile>>;

// The tokens of a file. Throws Error if its header does not match.
std::span<const std::byte> llmc_tokens(const MappedFile& file, const fs::path& path) {
  const std::span<const std::byte> bytes = file.bytes();
  const auto* const header = reinterpret_cast<const int32_t*>(bytes.data());
  check(bytes.size() >= llmc_header_bytes && header[0] == llmc_magic,
        "'{}' is no file of llm.c's tokens: expected a header that begins with {}", path.string(),
        llmc_magic);
  check(header[1] == llmc_version, "'{}' is of llm.c's version {}: expected {}, of GPT-2's tokens",
        path.string(), header[1], llmc_version);
  const auto tokens = static_cast<int64_t>(header[2]);
  check(tokens > 0 && std::ssize(bytes) == int64_t(llmc_header_bytes) + 2 * tokens,
        "'{}' has {} bytes, and says that it holds {} tokens, which take {}; copy it again",
        path.string(), bytes.size(), tokens, int64_t(llmc_header_bytes) + 2 * tokens);
  return bytes.subspan(llmc_header_bytes);
}

// The documents in these pieces, which end-of-text tokens separate.
Corpus::Documents llmc_documents(const std::vector<std::span<const std::byte>>& pieces) {
  struct Found {
    std::vector<uint64_t> ends, sections;
  };
  const auto found = std::make_shared<Found>();
  uint64_t at = 0;
  for (const auto& piece : pieces) {
    const std::span tokens(reinterpret_cast<const uint16_t*>(piece.data()), piece.size() / 2);
    SectionHash hash;
    int64_t length = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      ++at;
      ++length;
      hash.add(tokens[i]);
      const bool ends = tokens[i] == gpt2_end_of_text || i + 1 == tokens.size();
      if (ends || length % section_tokens == 0)
        found->sections.push_back(std::exchange(hash, {}).value());
      if (!ends) continue;
      found->ends.push_back(at);
      length = 0;
    }
  }
  return {found->ends, found->sections, found};
}

// Skips empty spans: zlib restarts the checksum if the pointer is null.
uLong crc_of(uLong crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;
  return crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}
uLong crc_of(const std::vector<std::span<const std::byte>>& pieces) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const auto& piece : pieces) crc = crc_of(crc, piece);
  return crc;
}

// The paths of the .bin files in a directory whose names contain this word.
std::vector<fs::path> bin_files(const fs::path& directory, const std::string& word) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = lower(entry.path().filename().string());
    if (name.ends_with(".bin") && name.find(word) != name.npos) found.push_back(entry.path());
  }
  std::ranges::sort(found, [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return found;
}

bool is_directory_of_llmc(const fs::path& path) {
  return !bin_files(path, "train").empty() && !bin_files(path, "val").empty();
}

bool is_directory_of_corpus(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / corpus_facts_file, ignored);
}

}  // namespace

CorpusPtr detail::open_llmc_files(const std::vector<fs::path>& files) {
  check(!files.empty(), "no files of llm.c's tokens: expected at least one");
  const auto maps = std::make_shared<Maps>();
  Corpus::Parts parts{.keeps = maps};
  for (const fs::path& file : files) {
    maps->push_back(std::make_shared<const MappedFile>(file));
    parts.tokens.push_back(llmc_tokens(*maps->back(), file));
  }
  parts.documents = [pieces = parts.tokens] { return llmc_documents(pieces); };
  parts.checksum = [pieces = parts.tokens] { return static_cast<uint32_t>(crc_of(pieces)); };
  return std::make_shared<const Corpus>(
      CorpusFacts{.name = files.front().stem().string(),
                  .source = files.size() == 1 ? files.front().string()
                                              : files.front().parent_path().string(),
                  .vocabulary = gpt2_vocabulary,
                  .end_of_text = gpt2_end_of_text},
      std::move(parts));
}

CorpusPtr detail::corpus_in_memory(CorpusFacts facts, Corpus::Parts parts) {
  const auto ends = std::make_shared<std::vector<uint64_t>>();
  for (const auto& piece : parts.tokens) {
    check(!piece.empty(), "document {} has no tokens: expected at least one", ends->size());
    ends->push_back((ends->empty() ? 0 : ends->back()) +
                    piece.size() / static_cast<size_t>(parts.token_bytes));
  }
  check(!ends->empty(), "{} has no documents: expected at least one", facts.source);
  parts.documents = [ends] { return Corpus::Documents{*ends, {}, ends}; };
  parts.checksum = [pieces = parts.tokens, learned = parts.learned, ends] {
    return static_cast<uint32_t>(
        crc_of(crc_of(crc_of(pieces), std::as_bytes(std::span(*ends))), learned));
  };
  return std::make_shared<const Corpus>(std::move(facts), std::move(parts));
}

void detail::check_tokens(const Corpus& corpus, int64_t vocabulary) {
  if (corpus.facts().vocabulary <= vocabulary) return;
  const auto ends = corpus.documents().ends;
  int64_t begin = 0;
  for (size_t d = 0; d < ends.size(); ++d) {
    std::vector<int32_t> tokens(ends[d] - static_cast<uint64_t>(begin));
    corpus.read(tokens, begin);
    const auto bad = std::ranges::find_if(tokens, [&](int32_t t) { return t >= vocabulary; });
    check(bad == tokens.end(),
          "document {} of {} has the token {} at {}, but the model knows {} tokens: expected 0 to "
          "{}",
          d, corpus.facts().source, *bad, bad - tokens.begin(), vocabulary, vocabulary - 1);
    begin = static_cast<int64_t>(ends[d]);
  }
}

Corpora open_corpora(const fs::path& path) {
  std::error_code ignored;
  if (is_directory_of_corpus(path)) return {open_corpus(path), nullptr};
  if (fs::is_directory(path, ignored)) {
    check(is_directory_of_llmc(path),
          "'{}' is no corpus: expected a directory that `text prepare` made, with {}, or one of "
          "llm.c's files, *train*.bin and *val*.bin",
          path.string(), corpus_facts_file);
    return {open_llmc_files(bin_files(path, "train")), open_llmc_files(bin_files(path, "val"))};
  }
  return {open_llmc_files({path}), nullptr};
}

bool detail::holds_corpus(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return is_directory_of_corpus(path) || is_directory_of_llmc(path);
  return fs::is_regular_file(path, ignored) && lower(path.extension().string()) == ".bin";
}

}  // namespace accrue
