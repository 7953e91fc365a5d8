#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "text/rows.h"

namespace accrue {

// Arranges the documents of a corpus in rows (text/rows.h), which are later read from the corpus.

// Tokens [begin, begin + length) of a corpus that form part of a row.
struct CorpusPiece {
  uint64_t begin : 40, length : 24;
};
inline CorpusPiece piece_of(int64_t begin, int64_t length) {
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(length)};
}
inline constexpr int64_t most_tokens = (int64_t{1} << 40) - 1,
                         most_context = (int64_t{1} << 24) - 1;

// The rows of a data set.
class CorpusRows {
 public:
  CorpusRows(CorpusPtr corpus, const RowOptions& options);

  int64_t size() const { return std::ssize(first_) - 1; }
  int64_t tokens() const { return tokens_; }

  // The hashes of the texts, as far as the rows contain them.
  std::vector<uint64_t> hashes() const;
  void set_texts(std::vector<int32_t> numbers) { texts_ = std::move(numbers); }
  bool has_texts() const { return !texts_.empty(); }

  void add_row(std::span<const CorpusPiece> pieces);
  // Sets the label of the last token of a stream to token `next` of the corpus.
  void end_stream(int64_t next) { pieces_.push_back({static_cast<uint64_t>(next), 0}); }

  void read_tokens(std::span<int32_t> row, int64_t n) const;
  void read_labels(std::span<int32_t> row, int64_t n) const;
  void read_lengths(std::span<int32_t> lengths, int64_t n) const;
  // Reads the number of each text as two digits.
  void read_texts(std::span<int32_t> digits, int64_t n) const;
  void read_positions(std::span<int32_t> row, int64_t n) const;

 private:
  template <class Work>
  void for_each(std::span<int32_t> row, int64_t n, Work work, int32_t padding) const;

  const CorpusPtr corpus_;
  const bool is_stream_;
  const int64_t step_;  // from one text of a row to the next; 0 if they follow directly
  int64_t tokens_ = 0;
  std::vector<CorpusPiece> pieces_;
  std::vector<uint32_t> first_{0};  // of each row, and the end of the last one
  std::vector<int32_t> texts_;      // the number of each piece's text, if some are equal
};

// Tokens [begin, end) that are to be learned.
struct AnswerTokens {
  int64_t begin, end;
};
// The answers of a document of tokens [begin, end); none if all of it is to be learned.
std::vector<AnswerTokens> answers_in(const Corpus& corpus, int64_t begin, int64_t end);
// True if a row of T tokens that begins at `begin` contains all labels of an answer.
inline bool fits(const AnswerTokens& answer, int64_t begin, int64_t T) {
  return answer.end - 1 <= begin + T;
}

// Puts the documents of a split into rows.
class RowLayout {
 public:
  RowLayout(const CorpusPtr& corpus, const RowOptions& options);

  // Adds tokens [begin, end): a document, or the part of a document that belongs to this split.
  void add(int64_t begin, int64_t end);
  std::shared_ptr<const CorpusRows> finish();
  int64_t documents() const { return documents_; }
  // True if a document with answers is longer than a row.
  bool has_answers_beyond() const { return has_answers_beyond_; }

 private:
  int64_t last_label(int64_t begin, const std::vector<AnswerTokens>& answers) const;

  struct OpenRow {
    int64_t room;
    std::vector<CorpusPiece> pieces;
  };
  void pack(const CorpusPiece& piece);
  void close(std::vector<OpenRow>::iterator row);
  void add_to_stream(int64_t begin, int64_t end);
  void cut(int64_t end);

  const int64_t T_;
  const DocumentRows kind_;
  const LongAnswers long_answers_;
  const CorpusPtr corpus_;
  bool has_answers_beyond_ = false;
  std::shared_ptr<CorpusRows> rows_;
  int64_t documents_ = 0;
  std::vector<OpenRow> open_;  // of packed documents
  // The consecutive tokens of a stream that are not in a row yet, and the room left in its open
  // row.
  int64_t run_begin_ = 0, run_end_ = 0, room_ = T_;
  std::vector<CorpusPiece> row_;
};

// Maps the hash of a section, or of a prompt, to [0, 1). It is held out if the result is less than
// the share to hold out.
double fraction_of(uint64_t hash);
// Distributes the documents between the layouts: those with hashes below the share go to the
// second. A document of several sections is added in as few parts as possible; a document with
// answers is not divided.
void divide(const Corpus& corpus, std::array<RowLayout, 2>& layouts, double share);
// Adds all documents to the layout.
void add_all(const Corpus& corpus, RowLayout& layout, DocumentRows kind);

}  // namespace accrue
