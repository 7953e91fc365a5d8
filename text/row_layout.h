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

// How the documents of a corpus come to lie in rows (text/rows.h), which are then read from it.

// Tokens [begin, begin + length) of a corpus as a part of a row.
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

  // The texts as the rows have them, by hashes of their tokens.
  std::vector<uint64_t> hashes() const;
  void set_texts(std::vector<int32_t> numbers) { texts_ = std::move(numbers); }
  bool has_texts() const { return !texts_.empty(); }

  void add_row(std::span<const CorpusPiece> pieces);
  // Says which token the last of a stream has as its label.
  void end_stream(int64_t next) { pieces_.push_back({static_cast<uint64_t>(next), 0}); }

  void read_tokens(std::span<int32_t> row, int64_t n) const;
  void read_labels(std::span<int32_t> row, int64_t n) const;
  void read_lengths(std::span<int32_t> lengths, int64_t n) const;
  // Two digits for each text's number.
  void read_texts(std::span<int32_t> digits, int64_t n) const;
  void read_positions(std::span<int32_t> row, int64_t n) const;

 private:
  template <class Work>
  void for_each(std::span<int32_t> row, int64_t n, Work work, int32_t padding) const;

  const CorpusPtr corpus_;
  const bool is_stream_;
  const int64_t step_;  // from a text of a row to the next one; 0 where they stand side by side
  int64_t tokens_ = 0;
  std::vector<CorpusPiece> pieces_;
  std::vector<uint32_t> first_{0};  // of each row, and the end
  std::vector<int32_t> texts_;      // the number of each piece, if some are equal
};

// Tokens [begin, end) that are to be learned.
struct AnswerTokens {
  int64_t begin, end;
};
// The answers of a document of tokens [begin, end); none if all of it is to be learned.
std::vector<AnswerTokens> answers_in(const Corpus& corpus, int64_t begin, int64_t end);
// True if a row of T tokens that begins at `begin` has all labels of an answer.
inline bool fits(const AnswerTokens& answer, int64_t begin, int64_t T) {
  return answer.end - 1 <= begin + T;
}

// Puts the documents of a split into rows.
class RowLayout {
 public:
  RowLayout(const CorpusPtr& corpus, const RowOptions& options);

  // A document, or what the split has of it: tokens [begin, end).
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
  // The run of a stream that has not been cut, and its row that is not full.
  int64_t run_begin_ = 0, run_end_ = 0, room_ = T_;
  std::vector<CorpusPiece> row_;
};

// The hash of a section, or of a prompt, as a number in [0, 1): below the share it is held out.
double fraction_of(uint64_t hash);
// Gives each layout its documents: those whose hashes are below the share to the second. A document
// of several sections is given in as few parts as possible, one with answers as a whole.
void divide(const Corpus& corpus, std::array<RowLayout, 2>& layouts, double share);
// Gives it all documents.
void add_all(const Corpus& corpus, RowLayout& layout, DocumentRows kind);

}  // namespace accrue
