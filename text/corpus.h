#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace accrue {

namespace detail {

// The properties of a corpus other than its documents.
struct CorpusFacts {
  std::string name{};                // "grammar", or the name of its directory or file
  std::string source{};              // where its texts came from
  std::string tokenizer{};           // "bytes", the path of one of its files, or empty if unknown
  std::string tokenizer_checksum{};  // text/tokenizers.h; empty if unknown
  // The form of its chats, such as "chatml" or, with the template's checksum, "template 1a2b3c4d";
  // empty if it has no chats or the form is unknown.
  std::string chat{};
  int64_t vocabulary = 0;  // each token is in [0, vocabulary)
  int32_t end_of_text = 0;
  // The share of sections that are held out for the test if there is no separate test corpus. The
  // hashes of their tokens decide which, so that adding documents moves none of the old ones and
  // copies of a document stay together.
  double hold_out = 0.05;
  // The number of consecutive documents that form a sample: 2 for an anchor and its positive, 3
  // with a negative, and 1 if each document stands for itself.
  int64_t texts_of_sample = 1;
  // The two texts of a sample are the same prompt with two answers; the first answer is preferred.
  // Only the tokens of the prompt are not to be learned.
  bool has_preferences = false;
  // How spellings of control tokens were treated in its texts.
  ControlInTexts control = ControlInTexts::tokens;
};

// Documents are held out by sections of this many tokens. Most documents are a single section.
inline constexpr int64_t section_tokens = 16'384;

}  // namespace detail

// Documents as tokens, one document after the other, each of which usually ends with the
// end-of-text token. A corpus in files is memory-mapped.
class Corpus {
 public:
  // The end of each document among the tokens, and a hash of the tokens of each section. A document
  // of L tokens has ceil(L / section_tokens) sections, in order. Without hashes no documents can be
  // held out.
  struct Documents {
    std::span<const uint64_t> ends, sections;
    std::shared_ptr<const void> keeps{};
  };
  // The tokens lie in one or more pieces of little-endian numbers of 2 or 4 bytes. Bit i of
  // `learned` says whether token i is to be learned; it is empty if all are. The functions compute
  // values that are expensive: each is called when its value is first needed.
  struct Parts {
    int token_bytes = 2;
    std::vector<std::span<const std::byte>> tokens{};
    std::span<const std::byte> learned{};
    std::function<Documents()> documents{};
    std::function<uint32_t()> checksum{};
    std::shared_ptr<const void> keeps{};
  };
  Corpus(detail::CorpusFacts facts, Parts parts);

  const detail::CorpusFacts& facts() const { return facts_; }
  int64_t size() const { return begins_.back(); }  // in tokens
  // Fills `out` with the tokens that begin at `begin`. Throws Error if some of them do not exist or
  // are out of range.
  void read(std::span<int32_t> out, int64_t begin) const;
  // False for a token that is read as context but not learned, such as a token of a prompt.
  bool is_learned(int64_t token) const {
    const auto i = static_cast<size_t>(token);
    return parts_.learned.empty() ||
           (std::to_integer<int>(parts_.learned[i / 8]) >> i % 8 & 1) != 0;
  }
  bool is_all_learned() const { return parts_.learned.empty(); }
  const Documents& documents() const;
  // Throws Error if the tokenizer is unknown.
  detail::TokenizerPtr tokenizer() const;
  // Identifies the tokens, the documents and the choice of tokens to be learned.
  uint32_t checksum() const { return parts_.checksum(); }

 private:
  detail::CorpusFacts facts_;
  Parts parts_;
  std::vector<int64_t> begins_;  // of the pieces, and the end of the last one
  mutable std::once_flag asked_;
  mutable Documents documents_;
};

namespace detail {

using CorpusPtr = std::shared_ptr<const Corpus>;

// A corpus for training and one for the test. Without a test corpus, some documents of the first
// are held out.
struct Corpora {
  CorpusPtr train, test;
};

// Hashes the tokens of a section.
class SectionHash {
 public:
  void add(int32_t token) { hash_ = (hash_ ^ static_cast<uint32_t>(token)) * 0x100000001b3; }
  uint64_t value() const;

 private:
  uint64_t hash_ = 0xcbf29ce484222325;  // FNV-1a's, by tokens
};

}  // namespace detail

// Collects documents in memory, or in a directory of files. Writing a directory takes memory that
// does not depend on the number of documents, and the directory appears only once it is complete:
//   corpus.json    version (1, or 2 for preferences), tokenizer, tokenizer_checksum if it is known,
//                  vocabulary, end_of_text, tokens, documents, learned (the number of tokens to be
//                  learned), hold_out, source, chat if there are any, texts_of_sample if it is not
//                  1, preferences if it has them, text_may_contain_control: "no" if such tokens
//                  became letters, and the CRC-32 of each file
//   tokens.bin     u16 for a vocabulary of at most 65,536, else u32
//   documents.bin  u64: Documents::ends
//   sections.bin   u64: Documents::sections
//   learned.bin    a bit for each token, lowest bit first; missing if all are to be learned
// and the files of its tokenizer. All numbers are little-endian.
class CorpusWriter {
 public:
  // The contents of a tokenizer's files by their names. facts.tokenizer is the name of one of them;
  // "bytes" needs no files.
  using TokenizerFiles = std::map<std::string, std::string>;

  // Without a directory, writes to memory. Throws Error if the directory exists and is not empty,
  // and unless 0 < facts.hold_out < 1.
  explicit CorpusWriter(detail::CorpusFacts facts, const std::string& directory = {},
                        const TokenizerFiles& tokenizer = {});
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;
  CorpusWriter& operator=(const CorpusWriter&) = delete;

  // Appends tokens to the current document. learned[i] is 0 if token i is not to be learned;
  // `learned` is empty if all are.
  // Throws Error for a token out of range.
  void append(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {});
  // Ends the current document. Throws Error if it has no tokens.
  void end_document();
  void add(std::span<const int32_t> document, std::span<const uint8_t> learned = {}) {
    append(document, learned);
    end_document();
  }
  // Sets CorpusFacts::texts_of_sample and has_preferences.
  void set_texts_of_sample(int64_t texts, bool has_preferences = false);
  // Sets CorpusFacts::chat.
  void set_chat(std::string form);
  int64_t documents() const;
  int64_t tokens() const;
  int64_t learned() const;  // tokens to be learned
  // Throws Error if there are no documents or the last sample lacks texts, and, with the reason, if
  // a file cannot be written.
  detail::CorpusPtr finish();

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

namespace detail {

inline constexpr const char* corpus_facts_file = "corpus.json";
// Opens a directory that CorpusWriter wrote. Throws Error, which names the file and the problem, if
// it is not such a directory: for an unknown version, for a size other than corpus.json says, and
// for ends that do not ascend.
CorpusPtr open_corpus(const std::filesystem::path& directory);

// Opens files of llm.c (dev/data/data_common.py). A file is a header of 256 i32, which begins with
// 20240520, the version 1 and the number of tokens, and then GPT-2's tokens as u16. A document ends
// with the end-of-text token or with its file. Throws Error for a file in another format.
CorpusPtr open_llmc_files(const std::vector<std::filesystem::path>& files);

// A corpus of documents in memory. Each piece of parts.tokens is a document; there are no hashes.
// The caller provides tokens, `learned` and `keeps`. Throws Error if there are no documents, or if
// one has no tokens.
CorpusPtr corpus_in_memory(CorpusFacts facts, Corpus::Parts parts);
// Throws Error, which names the first offending document and token, if a token is not in [0,
// vocabulary).
void check_tokens(const Corpus& corpus, int64_t vocabulary);

}  // namespace detail

// Opens a directory that CorpusWriter wrote, a file of llm.c, or a directory with such files, named
// *train*.bin and *val*.bin. Throws Error, which says what was expected, for anything else.
detail::Corpora open_corpora(const std::filesystem::path& path);

namespace detail {

// True if the path looks like one that open_corpora() can open.
bool holds_corpus(const std::filesystem::path& path);

}  // namespace detail

}  // namespace accrue
