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

// What a corpus is, apart from its documents.
struct CorpusFacts {
  std::string name{};       // "grammar", or that of its directory or file
  std::string source{};     // where its texts came from
  std::string tokenizer{};  // "bytes", the path of one of its files, or nothing if it is not known
  std::string tokenizer_checksum{};  // text/tokenizers.h; empty if it is not known
  // How its chats are written, such as "chatml" or, with the template's checksum, "template
  // 1a2b3c4d"; empty if it has none, or nobody says it.
  std::string chat{};
  int64_t vocabulary = 0;  // each token is in [0, vocabulary)
  int32_t end_of_text = 0;
  // The share of sections that are for the test where there is no corpus for that, by the hashes of
  // their tokens, so that new documents move none and copies of one stay together.
  double hold_out = 0.05;
  // So many documents, one after the other, are the texts of a sample: an anchor, its positive and,
  // if there are three, its negative. 1 if each stands for itself.
  int64_t texts_of_sample = 1;
  // The two texts of a sample are a prompt with an answer each, of which the first is preferred.
  // What is not to be learned is the prompt.
  bool has_preferences = false;
  // What the spelling of control tokens became in its texts.
  ControlInTexts control = ControlInTexts::tokens;
};

// Documents are held out by sections of so many tokens, of which most documents are one.
inline constexpr int64_t section_tokens = 16'384;

}  // namespace detail

// Documents as tokens, one document after the other, each of which usually ends with the
// end-of-text token. Where they lie in files these are mapped, and take no memory.
class Corpus {
 public:
  // The end of each document among the tokens, and a hash of the tokens of each section: a
  // document of L tokens has ceil(L / section_tokens) of them, in order. Without hashes nothing can
  // be held out.
  struct Documents {
    std::span<const uint64_t> ends, sections;
    std::shared_ptr<const void> keeps{};
  };
  // The tokens lie in one or more pieces of little-endian numbers of 2 or 4 bytes. Bit i of
  // `learned` says whether token i is to be learned; empty if all are. What is dear to compute is
  // asked for once, when it is needed.
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
  // Fills `out` with tokens from `begin` on. Throws Error if they are not there, or out of range.
  void read(std::span<int32_t> out, int64_t begin) const;
  // False for a token that is there to be read and not to be learned, as those of a prompt.
  bool is_learned(int64_t token) const {
    const auto i = static_cast<size_t>(token);
    return parts_.learned.empty() ||
           (std::to_integer<int>(parts_.learned[i / 8]) >> i % 8 & 1) != 0;
  }
  bool is_all_learned() const { return parts_.learned.empty(); }
  const Documents& documents() const;
  // Throws Error if no tokenizer is known.
  detail::TokenizerPtr tokenizer() const;
  // Identifies the tokens, the documents and what is to be learned.
  uint32_t checksum() const { return parts_.checksum(); }

 private:
  detail::CorpusFacts facts_;
  Parts parts_;
  std::vector<int64_t> begins_;  // of the pieces, and the end of the last
  mutable std::once_flag asked_;
  mutable Documents documents_;
};

namespace detail {

using CorpusPtr = std::shared_ptr<const Corpus>;

// A corpus for training and one for the test; without a test, documents of the first are held out.
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

// Collects documents, in memory or, in memory that does not depend on their number, as a directory
// of files, which appears complete or not at all:
//   corpus.json    version (1, or 2 of preferences), tokenizer, tokenizer_checksum if it is known,
//                  vocabulary, end_of_text, tokens, documents, learned (how many tokens are to
//                  be), hold_out, source, chat if there are any, texts_of_sample if it is not 1,
//                  preferences if it has them, text_may_contain_control: "no" if such tokens
//                  became letters, and each file's CRC-32
//   tokens.bin     u16 for a vocabulary of at most 65,536, else u32
//   documents.bin  u64: Documents::ends
//   sections.bin   u64: Documents::sections
//   learned.bin    a bit for each token, the lowest of a byte first; not if all are to be learned
// and the files of its tokenizer. All numbers are little-endian.
class CorpusWriter {
 public:
  // The contents of a tokenizer's files by their names, of which facts.tokenizer is one; "bytes"
  // needs none.
  using TokenizerFiles = std::map<std::string, std::string>;

  // In memory, without a directory. Throws Error if the directory exists with something in it, and
  // unless 0 < facts.hold_out < 1.
  explicit CorpusWriter(detail::CorpusFacts facts, const std::string& directory = {},
                        const TokenizerFiles& tokenizer = {});
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;
  CorpusWriter& operator=(const CorpusWriter&) = delete;

  // Adds tokens to the document that is being written. learned[i] is 0 if token i is not to be
  // learned; empty if all are. Throws Error for a token out of range.
  void append(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {});
  // Ends this document. Throws Error if it has no tokens.
  void end_document();
  void add(std::span<const int32_t> document, std::span<const uint8_t> learned = {}) {
    append(document, learned);
    end_document();
  }
  // Says what CorpusFacts::texts_of_sample and has_preferences are to be.
  void set_texts_of_sample(int64_t texts, bool has_preferences = false);
  // Says what CorpusFacts::chat is to be.
  void set_chat(std::string form);
  int64_t documents() const;
  int64_t tokens() const;
  int64_t learned() const;  // tokens that are to be
  // Throws Error if there is no document, or not all texts of a sample; also, with the reason, if
  // it cannot be written.
  detail::CorpusPtr finish();

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

namespace detail {

inline constexpr const char* corpus_facts_file = "corpus.json";
// Opens what CorpusWriter wrote. Throws Error for what is not such a directory, naming the file
// and what is wrong: a version that is not known, a size that is not what corpus.json says, ends
// that do not ascend.
CorpusPtr open_corpus(const std::filesystem::path& directory);

// Opens files of llm.c (dev/data/data_common.py): 256 i32, which begin with 20240520, the version
// 1 and the number of tokens, then GPT-2's tokens as u16. A document ends with the end-of-text
// token or with its file. Throws Error for what is not such a file.
CorpusPtr open_llmc_files(const std::vector<std::filesystem::path>& files);

// Documents that lie in memory, each a piece of parts.tokens, without hashes: tokens, `learned` and
// `keeps` of the parts are the caller's. Throws Error if there is none, or one without tokens.
CorpusPtr corpus_in_memory(CorpusFacts facts, Corpus::Parts parts);
// Throws Error, naming the first document and its token that is not in [0, vocabulary), if there is
// one.
void check_tokens(const Corpus& corpus, int64_t vocabulary);

}  // namespace detail

// Opens a directory of CorpusWriter, a file of llm.c, or a directory with such files, *train*.bin
// and *val*.bin. Throws Error, with what was expected, for anything else.
detail::Corpora open_corpora(const std::filesystem::path& path);

namespace detail {

// True if open_corpora() would try.
bool holds_corpus(const std::filesystem::path& path);

}  // namespace detail

}  // namespace accrue
