#include "text/rows.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "core/ceil_div.h"
#include "core/error.h"
#include "data/samples.h"
#include "kernels/judged.h"
#include "train/step_options.h"

namespace accrue {
namespace {

// Tokens [begin, begin + length) of a corpus as a part of a row.
struct Piece {
  uint64_t begin : 40, length : 24;
};
Piece piece_of(int64_t begin, int64_t length) {
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(length)};
}
constexpr int64_t most_tokens = (int64_t{1} << 40) - 1, most_context = (int64_t{1} << 24) - 1;

// The rows of a data set.
class Rows {
 public:
  Rows(CorpusPtr corpus, const RowOptions& options)
      : corpus_(std::move(corpus)),
        is_stream_(options.documents == DocumentRows::stream &&
                   corpus_->facts().texts_of_sample == 1),
        step_(corpus_->facts().has_preferences ? options.context / 2 : 0) {}

  int64_t size() const { return std::ssize(first_) - 1; }
  int64_t tokens() const { return tokens_; }

  // The texts as the rows have them, by hashes of their tokens.
  std::vector<uint64_t> hashes() const {
    std::vector<uint64_t> all;
    std::vector<int32_t> tokens;
    for (const Piece& piece : pieces_) {
      tokens.resize(piece.length);
      corpus_->read(tokens, static_cast<int64_t>(piece.begin));
      SectionHash hash;
      for (const int32_t token : tokens) hash.add(token);
      all.push_back(hash.value());
    }
    return all;
  }
  void set_texts(std::vector<int32_t> numbers) { texts_ = std::move(numbers); }
  bool has_texts() const { return !texts_.empty(); }

  void add_row(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) tokens_ += static_cast<int64_t>(piece.length);
    pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    check(pieces_.size() < std::numeric_limits<uint32_t>::max(),
          "{} has more than {} documents and pieces of them", corpus_->facts().source,
          pieces_.size());
    first_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
  // Says which token the last of a stream has as its label.
  void end_stream(int64_t next) { pieces_.push_back({static_cast<uint64_t>(next), 0}); }

  void read_tokens(std::span<int32_t> row, int64_t n) const {
    for_each(
        row, n,
        [&](std::span<int32_t> part, const Piece& piece, int64_t) {
          corpus_->read(part, static_cast<int64_t>(piece.begin));
        },
        corpus_->facts().end_of_text);
  }
  void read_labels(std::span<int32_t> row, int64_t n) const {
    for_each(
        row, n,
        [&](std::span<int32_t> part, const Piece& piece, int64_t next) {
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
  void read_lengths(std::span<int32_t> lengths, int64_t n) const {
    const auto first = pieces_.begin() + first_[static_cast<size_t>(n)];
    std::transform(first, first + std::ssize(lengths), lengths.begin(),
                   [](const Piece& piece) { return static_cast<int32_t>(piece.length); });
  }
  // Two digits for each text's number.
  void read_texts(std::span<int32_t> digits, int64_t n) const {
    const size_t first = size_t(n) * digits.size() / 2;
    for (size_t i = 0; i < digits.size(); ++i) {
      const int32_t text = texts_[first + i / 2];
      digits[i] = i % 2 == 0 ? text / text_digit : text % text_digit;
    }
  }
  void read_positions(std::span<int32_t> row, int64_t n) const {
    const int32_t* const begin = row.data();
    for_each(
        row, n,
        [&](std::span<int32_t> part, const Piece&, int64_t) {
          std::iota(part.begin(), part.end(),
                    is_stream_ ? static_cast<int32_t>(part.data() - begin) : 0);
        },
        0);
  }

 private:
  // Calls work(part of the row, piece, its next token) for each piece of row n, and fills the rest.
  template <class Work>
  void for_each(std::span<int32_t> row, int64_t n, Work work, int32_t padding) const {
    for (uint32_t i = first_[static_cast<size_t>(n)]; i < first_[static_cast<size_t>(n) + 1]; ++i) {
      const Piece piece = pieces_[i];
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

  const CorpusPtr corpus_;
  const bool is_stream_;
  const int64_t step_;  // from a text of a row to the next one; 0 where they stand side by side
  int64_t tokens_ = 0;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> first_{0};  // of each row, and the end
  std::vector<int32_t> texts_;      // the number of each piece, if some are equal
};

// Tokens [begin, end) that are to be learned.
struct Answer {
  int64_t begin, end;
};

// The answers of a document of tokens [begin, end); none if all of it is to be learned.
std::vector<Answer> answers_in(const Corpus& corpus, int64_t begin, int64_t end) {
  std::vector<Answer> answers;
  if (corpus.is_all_learned()) return answers;
  for (int64_t t = begin; t < end; ++t) {
    if (!corpus.is_learned(t)) continue;
    if (answers.empty() || answers.back().end < t) answers.push_back({t, t});
    answers.back().end = t + 1;
  }
  const bool are_all = answers.size() == 1 && answers[0].begin == begin && answers[0].end == end;
  return are_all ? std::vector<Answer>{} : answers;
}

// True if a row of T tokens that begins at `begin` has all labels of an answer.
bool fits(const Answer& answer, int64_t begin, int64_t T) { return answer.end - 1 <= begin + T; }

// Puts the documents of a split into rows.
class Layout {
 public:
  Layout(const CorpusPtr& corpus, const RowOptions& options)
      : T_(options.context),
        kind_(options.documents),
        long_answers_(options.long_answers),
        corpus_(corpus),
        rows_(std::make_shared<Rows>(corpus, options)) {}

  // A document, or what the split has of it: tokens [begin, end).
  void add(int64_t begin, int64_t end) {
    ++documents_;
    if (kind_ == DocumentRows::stream) return add_to_stream(begin, end);
    int64_t last = end - 1;
    if (last - begin > T_)
      if (const auto answers = answers_in(*corpus_, begin, end); !answers.empty()) {
        has_answers_beyond_ = true;
        last = last_label(begin, answers);
      }
    for (; begin < last; begin += T_) {
      const Piece piece = piece_of(begin, std::min(T_, last - begin));
      if (kind_ == DocumentRows::padded) rows_->add_row({&piece, 1});
      else pack(piece);
    }
  }
  std::shared_ptr<const Rows> finish() {
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
  int64_t documents() const { return documents_; }
  // True if a document with answers is longer than a row.
  bool has_answers_beyond() const { return has_answers_beyond_; }

 private:
  // The last token that is learned in a row that begins with a document; `begin` if none is.
  int64_t last_label(int64_t begin, const std::vector<Answer>& answers) const {
    int64_t last = begin;
    for (const Answer& answer : answers) {
      if (fits(answer, begin, T_)) last = std::max(begin, answer.end - 1);
      else if (long_answers_ == LongAnswers::cut && answer.begin <= begin + T_) last = begin + T_;
    }
    return last;
  }

  struct OpenRow {
    int64_t room;
    std::vector<Piece> pieces;
  };

  void pack(const Piece& piece) {
    const auto length = static_cast<int64_t>(piece.length);
    auto best = open_.end();
    for (auto row = open_.begin(); row != open_.end(); ++row)
      if (row->room >= length && (best == open_.end() || row->room < best->room)) best = row;
    if (best == open_.end()) {
      if (std::ssize(open_) == open_rows)
        close(std::ranges::min_element(open_, {}, &OpenRow::room));
      best = open_.insert(open_.end(), {T_, {}});
    }
    best->pieces.push_back(piece);
    best->room -= length;
    if (best->room == 0) close(best);
  }
  void close(std::vector<OpenRow>::iterator row) {
    rows_->add_row(row->pieces);
    open_.erase(row);
  }

  // Tokens that lie side by side are one run.
  void add_to_stream(int64_t begin, int64_t end) {
    if (begin != run_end_) {
      cut(run_end_);
      run_begin_ = begin;
    }
    run_end_ = end;
  }
  // Puts the run's tokens up to `end` into rows.
  void cut(int64_t end) {
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

  const int64_t T_;
  const DocumentRows kind_;
  const LongAnswers long_answers_;
  const CorpusPtr corpus_;
  bool has_answers_beyond_ = false;
  std::shared_ptr<Rows> rows_;
  int64_t documents_ = 0;
  std::vector<OpenRow> open_;  // of packed documents
  // The run of a stream that has not been cut, and its row that is not full.
  int64_t run_begin_ = 0, run_end_ = 0, room_ = T_;
  std::vector<Piece> row_;
};

double fraction_of(uint64_t hash) { return double(hash >> 11) * 0x1p-53; }

// The share, or so much more or less that of few documents one is held out and one is not.
double share_of_both(std::span<const uint64_t> sections, double share) {
  if (sections.empty()) return share;
  const auto [least, most] = std::ranges::minmax(sections);
  const double first = std::nextafter(fraction_of(least), 1.0), last = fraction_of(most);
  return first <= last ? std::clamp(share, first, last) : share;
}

// Gives each layout its documents: those whose hashes are below the share to the second. A document
// of several sections is given in as few parts as possible, one with answers as a whole.
void divide(const Corpus& corpus, std::array<Layout, 2>& layouts, double share) {
  const Corpus::Documents& documents = corpus.documents();
  check(!documents.sections.empty(), "{} has no hashes by which to hold out documents",
        corpus.facts().source);
  share = share_of_both(documents.sections, share);
  size_t section = 0;
  int64_t begin = 0;
  for (const uint64_t document_end : documents.ends) {
    const auto end = static_cast<int64_t>(document_end);
    std::optional<bool> is_held_out;  // the part that began at `part`
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

void add_all(const Corpus& corpus, Layout& layout, DocumentRows kind) {
  if (kind == DocumentRows::stream) return layout.add(0, corpus.size());
  int64_t begin = 0;
  for (const uint64_t end : corpus.documents().ends)
    layout.add(std::exchange(begin, static_cast<int64_t>(end)), static_cast<int64_t>(end));
}

// The rows of samples, and how many of their texts were cut, or of preferences how many samples
// were left out.
struct SampleRows {
  std::shared_ptr<Rows> rows;
  int64_t cut = 0;
};

// That of the tokens which are not learned before those of a document that are.
uint64_t hash_of_prompt(const Corpus& corpus, int64_t begin, int64_t end) {
  std::vector<int32_t> tokens;
  for (int64_t i = begin; i < end && !corpus.is_learned(i); ++i) tokens.push_back(0);
  corpus.read(tokens, begin);
  SectionHash hash;
  for (const int32_t token : tokens) hash.add(token);
  return hash.value();
}

// Gives each of the two its samples, by the hashes of their prompts.
std::array<SampleRows, 2> divide_preferences(const CorpusPtr& corpus, const RowOptions& options) {
  const std::span<const uint64_t> ends = corpus->documents().ends;
  const int64_t most = options.context / 2;
  check(options.context % 2 == 0,
        "rows of {} tokens for a chosen and a rejected text: expected an even number",
        options.context);
  std::array<SampleRows, 2> all;
  for (SampleRows& each : all) each.rows = std::make_shared<Rows>(corpus, options);
  for (size_t first = 0; first < ends.size(); first += 2) {
    const auto begin = static_cast<int64_t>(first == 0 ? 0 : ends[first - 1]),
               middle = static_cast<int64_t>(ends[first]),
               end = static_cast<int64_t>(ends[first + 1]);
    SampleRows& to =
        all[fraction_of(hash_of_prompt(*corpus, begin, middle)) < corpus->facts().hold_out];
    check(middle - begin > 1 && end - middle > 1,
          "{} has a preference whose text is a single token: expected a prompt and an answer",
          corpus->facts().source);
    // The last token of a text is only a label.
    const std::array<Piece, 2> row{piece_of(begin, std::min(most, middle - 1 - begin)),
                                   piece_of(middle, std::min(most, end - 1 - middle))};
    if (std::max(middle - begin, end - middle) - 1 > most) ++to.cut;
    else to.rows->add_row(row);
  }
  return all;
}

// Gives each of the two its samples, by the hashes of their first texts.
std::array<SampleRows, 2> divide_samples(const CorpusPtr& corpus, const RowOptions& options) {
  const Corpus::Documents& documents = corpus->documents();
  const CorpusFacts& facts = corpus->facts();
  const int64_t P = facts.texts_of_sample, most = options.context / P;
  check(most > 0, "rows of {} tokens for {} texts each: expected at least one for each",
        options.context, P);
  std::array<SampleRows, 2> all;
  for (SampleRows& each : all) each.rows = std::make_shared<Rows>(corpus, options);
  size_t section = 0;
  int64_t begin = 0;
  std::vector<Piece> row;
  for (size_t first = 0; first < documents.ends.size(); first += static_cast<size_t>(P)) {
    SampleRows& to = all[fraction_of(documents.sections[section]) < facts.hold_out];
    row.clear();
    for (size_t text = first; text < first + static_cast<size_t>(P); ++text) {
      const auto end = static_cast<int64_t>(documents.ends[text]);
      row.push_back(piece_of(begin, std::min(most, end - begin)));
      to.cut += end - begin > most;
      section += static_cast<size_t>(ceil_div(end - begin, section_tokens));
      begin = end;
    }
    to.rows->add_row(row);
  }
  return all;
}

// Numbers the texts that occur more than once from 1 on, and those that do not 0; nothing if all
// are different.
void number_texts(const std::array<SampleRows, 2>& both) {
  std::array<std::vector<uint64_t>, 2> hashes{both[0].rows->hashes(), both[1].rows->hashes()};
  std::unordered_map<uint64_t, int32_t> numbers;  // 0 for one that has occurred once
  int32_t last = 0;
  for (const auto& some : hashes)
    for (const uint64_t hash : some)
      if (const auto [found, is_new] = numbers.emplace(hash, 0); !is_new && found->second == 0)
        found->second = ++last;
  if (last == 0) return;
  check(last < text_digit * text_digit, "{} texts occur more than once: expected fewer than {}",
        last, text_digit * text_digit);
  for (size_t i = 0; i < both.size(); ++i) {
    std::vector<int32_t> of_rows;
    for (const uint64_t hash : hashes[i]) of_rows.push_back(numbers.at(hash));
    both[i].rows->set_texts(std::move(of_rows));
  }
}

uint32_t crc_of(const std::string& text) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

using Read = void (Rows::*)(std::span<int32_t>, int64_t) const;

// Reads `columns` numbers of a row.
Field field_of(const std::shared_ptr<const Rows>& rows, const char* name, int64_t columns,
               int64_t classes, Read read) {
  return {.name = name,
          .values = Tensor::without_elements({rows->size(), columns}, DType::i32, Device::cpu),
          .encoding = Encoding::index,
          .classes = classes,
          .read = [rows, read](std::span<std::byte> row, int64_t n) {
            ((*rows).*read)(elements_of<int32_t>(row), n);
          }};
}

// A data set of these rows' tokens and positions. `form` says how they were made.
Dataset dataset_of(const CorpusPtr& corpus, const std::shared_ptr<const Rows>& rows,
                   const RowOptions& options, const std::string& form) {
  const CorpusFacts& facts = corpus->facts();
  const int64_t N = rows->size(), T = options.context;
  check(N <= std::numeric_limits<int32_t>::max(), "{} has {} rows of {} tokens, more than {}",
        facts.source, N, T, std::numeric_limits<int32_t>::max());
  Dataset set{facts.name, facts.source};
  set.fields = {field_of(rows, "tokens", T, facts.vocabulary, &Rows::read_tokens),
                field_of(rows, "positions", T, T, &Rows::read_positions)};
  set.checksum = [corpus, said = fmt::format("{} {}", T, form)] {
    return crc_of(fmt::format("{:08x} {}", corpus->checksum(), said));
  };
  return set;
}

Dataset dataset_of(const CorpusPtr& corpus, Layout& layout, const RowOptions& options,
                   const std::string& part) {
  const std::shared_ptr<const Rows> rows = layout.finish();
  Dataset set =
      dataset_of(corpus, rows, options,
                 fmt::format("{}{} {}", name_in(document_rows_names(), options.documents),
                             layout.has_answers_beyond()
                                 ? " " + name_in(long_answers_names(), options.long_answers)
                                 : "",
                             part));
  const int64_t N = rows->size(), T = options.context;
  Field labels = field_of(rows, "labels", T, corpus->facts().vocabulary, &Rows::read_labels);
  labels.has_not_judged = true;
  set.fields.insert(set.fields.begin() + 1, std::move(labels));
  set.about = fmt::format("{} of {} tokens, {}{:.1f} % of them with a label", counted(N, "row"), T,
                          options.documents == DocumentRows::stream
                              ? ""
                              : fmt::format("{}, ", counted(layout.documents(), "document")),
                          100.0 * double(rows->tokens()) / double(std::max<int64_t>(1, N * T)));
  return set;
}

Dataset dataset_of(const CorpusPtr& corpus, const SampleRows& samples, const RowOptions& options,
                   const std::string& part) {
  const int64_t P = corpus->facts().texts_of_sample, most = options.context / P;
  Dataset set = dataset_of(corpus, samples.rows, options, fmt::format("samples of {} {}", P, part));
  set.fields.push_back(field_of(samples.rows, "lengths", P, most + 1, &Rows::read_lengths));
  if (samples.rows->has_texts())
    set.fields.push_back(field_of(samples.rows, "texts", 2 * P, text_digit, &Rows::read_texts));
  set.about = fmt::format("{} of {} texts, {} of them cut to {} tokens",
                          counted(samples.rows->size(), "sample"), P, samples.cut, most);
  return set;
}

Dataset preferences_of(const CorpusPtr& corpus, const SampleRows& samples,
                       const RowOptions& options, const std::string& part) {
  Dataset set = dataset_of(corpus, samples.rows, options, "preferences " + part);
  set.fields.push_back(field_of(samples.rows, "answers", options.context,
                                corpus->facts().vocabulary, &Rows::read_labels));
  set.fields.back().has_not_judged = true;
  set.about =
      fmt::format("{} of two answers{}", counted(samples.rows->size(), "pair"),
                  samples.cut == 0 ? ""
                                   : fmt::format(", {} left out that {} a text of more "
                                                 "than {} tokens, half of a row",
                                                 samples.cut, samples.cut == 1 ? "has" : "have",
                                                 options.context / 2));
  return set;
}

Datasets samples_of(const CorpusPtr& corpus, const RowOptions& options) {
  const bool are_preferences = corpus->facts().has_preferences;
  const std::array<SampleRows, 2> both =
      are_preferences ? divide_preferences(corpus, options) : divide_samples(corpus, options);
  if (!are_preferences) number_texts(both);
  const auto make = [&](const SampleRows& samples, const std::string& part) {
    return are_preferences ? preferences_of(corpus, samples, options, part)
                           : dataset_of(corpus, samples, options, part);
  };
  const auto& [train, test] = both;
  const std::string share = fmt::format("{} held out", corpus->facts().hold_out);
  Datasets sets{make(train, share), make(test, share + " here")};
  check(sets.train.size() > 0 && sets.test.size() > 0,
        "{} has {} for training and {} for the test, if {} are held out{}: expected some for both",
        corpus->facts().source, counted(sets.train.size(), "sample"),
        counted(sets.test.size(), "sample"), corpus->facts().hold_out,
        are_preferences ? fmt::format(" and {} left out, with a text of more than {} tokens",
                                      train.cut + test.cut, options.context / 2)
                        : "");
  return sets;
}

}  // namespace

const std::map<std::string, DocumentRows>& document_rows_names() {
  static const std::map<std::string, DocumentRows> names{{"packed", DocumentRows::packed},
                                                         {"padded", DocumentRows::padded},
                                                         {"stream", DocumentRows::stream}};
  return names;
}

const std::map<std::string, LongAnswers>& long_answers_names() {
  static const std::map<std::string, LongAnswers> names{{"leave-out", LongAnswers::leave_out},
                                                        {"cut", LongAnswers::cut}};
  return names;
}

AnswerCounts count_answers(const Corpora& corpora, const RowOptions& options) {
  AnswerCounts counts;
  if (options.documents == DocumentRows::stream) return counts;
  for (const CorpusPtr& corpus : {corpora.train, corpora.test}) {
    if (!corpus || corpus->is_all_learned()) continue;
    int64_t begin = 0;
    for (const uint64_t document_end : corpus->documents().ends) {
      const auto end = static_cast<int64_t>(document_end);
      const auto answers = answers_in(*corpus, begin, end);
      counts.all += std::ssize(answers);
      counts.longer += std::ranges::count_if(
          answers, [&](const Answer& answer) { return !fits(answer, begin, options.context); });
      begin = end;
    }
  }
  return counts;
}

int64_t samples_with_equal_positives(const Dataset& data) {
  if (!data.has("texts")) return 0;
  const Field& texts = data.field("texts");
  using Number = std::array<int32_t, 2>;
  std::vector<Number> positives;
  std::map<Number, int64_t> times;  // among positives and negatives
  std::vector<int32_t> digits(static_cast<size_t>(texts.values.size(1)));
  for (int64_t n = 0; n < data.size(); ++n) {
    texts.read(std::as_writable_bytes(std::span(digits)), n);
    for (size_t i = 2; i < digits.size(); i += 2) ++times[{digits[i], digits[i + 1]}];
    positives.push_back({digits[2], digits[3]});
  }
  return std::ranges::count_if(
      positives, [&](const Number& text) { return text != Number{} && times.at(text) > 1; });
}

Datasets rows_of(const Corpora& corpora, const RowOptions& options) {
  const auto& [train, test] = corpora;
  check(1 <= options.context && options.context <= most_context,
        "a context of {} tokens: expected 1 to {}", options.context, most_context);
  for (const CorpusPtr& corpus : {train, test})
    if (corpus)
      check(corpus->size() <= most_tokens, "{} has more than {} tokens", corpus->facts().source,
            most_tokens);
  if (train->facts().texts_of_sample > 1) return samples_of(train, options);
  std::array<Layout, 2> layouts{Layout(train, options), Layout(test ? test : train, options)};
  if (test) {
    add_all(*train, layouts[0], options.documents);
    add_all(*test, layouts[1], options.documents);
  } else {
    divide(*train, layouts, train->facts().hold_out);
  }
  const std::string share = test ? "" : fmt::format("{} held out", train->facts().hold_out);
  Datasets sets{dataset_of(train, layouts[0], options, share),
                dataset_of(test ? test : train, layouts[1], options, share + " here")};
  sets.test.is_trained_on = test == train;
  if (test)  // Both have the tokens of both.
    for (const auto& [one, other] :
         {std::pair{&sets.train, &sets.test}, std::pair{&sets.test, &sets.train}})
      for (size_t i = 0; i < one->fields.size(); ++i)
        one->fields[i].classes = std::max(one->fields[i].classes, other->fields[i].classes);
  check(sets.train.size() > 0 && sets.test.size() > 0,
        "{} has {} for training and {} for the test{}: expected some for both, of documents of at "
        "least 2 tokens{}",
        train->facts().source, counted(sets.train.size(), "row"), counted(sets.test.size(), "row"),
        test ? ""
             : fmt::format(", if {} of its {} are held out", train->facts().hold_out,
                           counted(std::ssize(train->documents().sections), "section")),
        layouts[0].has_answers_beyond() || layouts[1].has_answers_beyond()
            ? fmt::format(" and with answers that end within {} tokens", options.context)
            : "");
  return sets;
}

}  // namespace accrue
