#include "text/row_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "kernels/judged.h"

namespace accrue {

CorpusRows::CorpusRows(CorpusPtr corpus, const RowOptions& options)
    : corpus_(std::move(corpus)),
      is_stream_(options.documents == DocumentRows::stream &&
                 corpus_->facts().texts_of_sample == 1),
      step_(corpus_->facts().has_preferences ? options.context / 2 : 0) {}

// Calls work(part of the row, piece, its next token) for each piece of row n, and pads the rest.
template <class Work>
void CorpusRows::for_each(std::span<int32_t> row, int64_t n, Work work, int32_t padding) const {
  for (uint32_t i = first_[static_cast<size_t>(n)]; i < first_[static_cast<size_t>(n) + 1]; ++i) {
    const CorpusPiece piece = pieces_[i];
    const auto next =
        static_cast<int64_t>(is_stream_ ? pieces_[i + 1].begin : piece.begin + piece.length);
    work(row.first(piece.length), piece, next);
    row = row.subspan(piece.length);
    if (step_ == 0) continue;
    const size_t room = static_cast<size_t>(step_) - piece.length;
    std::ranges::fill(row.first(room), padding);
    row = row.subspan(room);
  }
  std::ranges::fill(row, padding);
}

std::vector<uint64_t> CorpusRows::hashes() const {
  std::vector<uint64_t> all;
  std::vector<int32_t> tokens;
  for (const CorpusPiece& piece : pieces_) {
    tokens.resize(piece.length);
    corpus_->read(tokens, static_cast<int64_t>(piece.begin));
    SectionHash hash;
    for (const int32_t token : tokens) hash.add(token);
    all.push_back(hash.value());
  }
  return all;
}

void CorpusRows::add_row(std::span<const CorpusPiece> pieces) {
  for (const CorpusPiece& piece : pieces) tokens_ += static_cast<int64_t>(piece.length);
  pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  check(pieces_.size() < std::numeric_limits<uint32_t>::max(),
        "{} has more than {} documents and pieces of them", corpus_->facts().source,
        pieces_.size());
  first_.push_back(static_cast<uint32_t>(pieces_.size()));
}

void CorpusRows::read_tokens(std::span<int32_t> row, int64_t n) const {
  for_each(
      row, n,
      [&](std::span<int32_t> part, const CorpusPiece& piece, int64_t) {
        corpus_->read(part, static_cast<int64_t>(piece.begin));
      },
      corpus_->facts().end_of_text);
}

void CorpusRows::read_labels(std::span<int32_t> row, int64_t n) const {
  for_each(
      row, n,
      [&](std::span<int32_t> part, const CorpusPiece& piece, int64_t next) {
        const auto begin = static_cast<int64_t>(piece.begin) + 1;
        corpus_->read(part.first(part.size() - 1), begin);
        corpus_->read(part.last(1), next);
        if (corpus_->is_all_learned()) return;
        for (int64_t i = 0; i + 1 < std::ssize(part); ++i)
          if (!corpus_->is_learned(begin + i)) part[static_cast<size_t>(i)] = not_judged;
        if (!corpus_->is_learned(next)) part.back() = not_judged;
      },
      not_judged);
}

void CorpusRows::read_lengths(std::span<int32_t> lengths, int64_t n) const {
  const auto first = pieces_.begin() + first_[static_cast<size_t>(n)];
  std::transform(first, first + std::ssize(lengths), lengths.begin(),
                 [](const CorpusPiece& piece) { return static_cast<int32_t>(piece.length); });
}

void CorpusRows::read_texts(std::span<int32_t> digits, int64_t n) const {
  const size_t first = size_t(n) * digits.size() / 2;
  for (size_t i = 0; i < digits.size(); ++i) {
    const int32_t text = texts_[first + i / 2];
    digits[i] = i % 2 == 0 ? text / text_digit : text % text_digit;
  }
}

void CorpusRows::read_positions(std::span<int32_t> row, int64_t n) const {
  const int32_t* const begin = row.data();
  for_each(
      row, n,
      [&](std::span<int32_t> part, const CorpusPiece&, int64_t) {
        std::iota(part.begin(), part.end(),
                  is_stream_ ? static_cast<int32_t>(part.data() - begin) : 0);
      },
      0);
}

std::vector<AnswerTokens> answers_in(const Corpus& corpus, int64_t begin, int64_t end) {
  std::vector<AnswerTokens> answers;
  if (corpus.is_all_learned()) return answers;
  for (int64_t t = begin; t < end; ++t) {
    if (!corpus.is_learned(t)) continue;
    if (answers.empty() || answers.back().end < t) answers.push_back({t, t});
    answers.back().end = t + 1;
  }
  const bool are_all = answers.size() == 1 && answers[0].begin == begin && answers[0].end == end;
  return are_all ? std::vector<AnswerTokens>{} : answers;
}

RowLayout::RowLayout(const CorpusPtr& corpus, const RowOptions& options)
    : T_(options.context),
      kind_(options.documents),
      long_answers_(options.long_answers),
      corpus_(corpus),
      rows_(std::make_shared<CorpusRows>(corpus, options)) {}

void RowLayout::add(int64_t begin, int64_t end) {
  ++documents_;
  if (kind_ == DocumentRows::stream) return add_to_stream(begin, end);
  int64_t last = end - 1;
  if (last - begin > T_)
    if (const auto answers = answers_in(*corpus_, begin, end); !answers.empty()) {
      has_answers_beyond_ = true;
      last = last_label(begin, answers);
    }
  for (; begin < last; begin += T_) {
    const CorpusPiece piece = piece_of(begin, std::min(T_, last - begin));
    if (kind_ == DocumentRows::padded) rows_->add_row({&piece, 1});
    else pack(piece);
  }
}

std::shared_ptr<const CorpusRows> RowLayout::finish() {
  if (kind_ == DocumentRows::stream && run_end_ > run_begin_) {
    // The last token is only a label.
    cut(run_end_ - 1);
    if (!row_.empty()) rows_->add_row(row_);
    rows_->end_stream(run_end_ - 1);
  }
  std::ranges::stable_sort(open_, {}, &OpenRow::room);
  for (const OpenRow& row : open_) rows_->add_row(row.pieces);
  return rows_;
}

// The last token that is learned in a row that begins with the document; `begin` if there is none.
int64_t RowLayout::last_label(int64_t begin, const std::vector<AnswerTokens>& answers) const {
  int64_t last = begin;
  for (const AnswerTokens& answer : answers) {
    if (fits(answer, begin, T_)) last = std::max(begin, answer.end - 1);
    else if (long_answers_ == LongAnswers::cut && answer.begin <= begin + T_) last = begin + T_;
  }
  return last;
}

void RowLayout::pack(const CorpusPiece& piece) {
  const auto length = static_cast<int64_t>(piece.length);
  auto best = open_.end();
  for (auto row = open_.begin(); row != open_.end(); ++row)
    if (row->room >= length && (best == open_.end() || row->room < best->room)) best = row;
  if (best == open_.end()) {
    if (std::ssize(open_) == open_rows) close(std::ranges::min_element(open_, {}, &OpenRow::room));
    best = open_.insert(open_.end(), {T_, {}});
  }
  best->pieces.push_back(piece);
  best->room -= length;
  if (best->room == 0) close(best);
}

void RowLayout::close(std::vector<OpenRow>::iterator row) {
  rows_->add_row(row->pieces);
  open_.erase(row);
}

// Adjacent tokens form one run.
void RowLayout::add_to_stream(int64_t begin, int64_t end) {
  if (begin != run_end_) {
    cut(run_end_);
    run_begin_ = begin;
  }
  run_end_ = end;
}

// Moves the run's tokens up to `end` into rows.
void RowLayout::cut(int64_t end) {
  while (run_begin_ < end) {
    const int64_t length = std::min(room_, end - run_begin_);
    row_.push_back(piece_of(run_begin_, length));
    run_begin_ += length;
    room_ -= length;
    if (room_ > 0) continue;
    rows_->add_row(row_);
    row_.clear();
    room_ = T_;
  }
}

double fraction_of(uint64_t hash) { return double(hash >> 11) * 0x1p-53; }

namespace {

// The share, adjusted if necessary so that at least one section is held out and at least one is
// not.
double share_of_both(std::span<const uint64_t> sections, double share) {
  if (sections.empty()) return share;
  const auto [least, most] = std::ranges::minmax(sections);
  const double first = std::nextafter(fraction_of(least), 1.0), last = fraction_of(most);
  return first <= last ? std::clamp(share, first, last) : share;
}

}  // namespace

void divide(const Corpus& corpus, std::array<RowLayout, 2>& layouts, double share) {
  const Corpus::Documents& documents = corpus.documents();
  check(!documents.sections.empty(), "{} has no hashes by which to hold out documents",
        corpus.facts().source);
  share = share_of_both(documents.sections, share);
  size_t section = 0;
  int64_t begin = 0;
  for (const uint64_t document_end : documents.ends) {
    const auto end = static_cast<int64_t>(document_end);
    std::optional<bool> is_held_out;  // for the part that begins at `part`
    int64_t part = begin;
    const bool is_whole = end - begin > section_tokens && !answers_in(corpus, begin, end).empty();
    for (int64_t at = begin; at < end; at += section_tokens) {
      const bool is_next = fraction_of(documents.sections[section++]) < share;
      if (is_held_out && is_whole) continue;
      if (is_held_out && *is_held_out != is_next)
        layouts[*is_held_out].add(std::exchange(part, at), at);
      is_held_out = is_next;
    }
    layouts[*is_held_out].add(part, end);
    begin = end;
  }
}

void add_all(const Corpus& corpus, RowLayout& layout, DocumentRows kind) {
  if (kind == DocumentRows::stream) return layout.add(0, corpus.size());
  int64_t begin = 0;
  for (const uint64_t end : corpus.documents().ends)
    layout.add(std::exchange(begin, static_cast<int64_t>(end)), static_cast<int64_t>(end));
}

}  // namespace accrue
