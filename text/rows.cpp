#include "text/rows.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <unordered_map>

#include "core/ceil_div.h"
#include "core/error.h"
#include "data/samples.h"
#include "text/row_layout.h"
#include "train/step_options.h"

namespace accrue {
namespace {

// The rows of samples, and how many of their texts were cut or, for preferences, how many samples
// were left out.
struct SampleRows {
  std::shared_ptr<CorpusRows> rows;
  int64_t cut = 0;
};

// The hash of the tokens of a document before the first one that is learned.
uint64_t hash_of_prompt(const Corpus& corpus, int64_t begin, int64_t end) {
  std::vector<int32_t> tokens;
  for (int64_t i = begin; i < end && !corpus.is_learned(i); ++i) tokens.push_back(0);
  corpus.read(tokens, begin);
  SectionHash hash;
  for (const int32_t token : tokens) hash.add(token);
  return hash.value();
}

// Gives the rows that get a sample whose hash is this.
using ChooseRows = std::function<SampleRows&(uint64_t hash)>;

// Adds the preferences of a corpus, by the hashes of their prompts.
void add_preferences(const CorpusPtr& corpus, const RowOptions& options,
                     const ChooseRows& rows_for) {
  const std::span<const uint64_t> ends = corpus->documents().ends;
  const int64_t most = options.context / 2;
  check(options.context % 2 == 0,
        "rows of {} tokens for a chosen and a rejected text: expected an even number",
        options.context);
  for (size_t first = 0; first < ends.size(); first += 2) {
    const auto begin = static_cast<int64_t>(first == 0 ? 0 : ends[first - 1]),
               middle = static_cast<int64_t>(ends[first]),
               end = static_cast<int64_t>(ends[first + 1]);
    SampleRows& to = rows_for(hash_of_prompt(*corpus, begin, middle));
    check(middle - begin > 1 && end - middle > 1,
          "{} has a preference whose text is a single token: expected a prompt and an answer",
          corpus->facts().source);
    // The last token of a text is only a label.
    const std::array<CorpusPiece, 2> row{piece_of(begin, std::min(most, middle - 1 - begin)),
                                         piece_of(middle, std::min(most, end - 1 - middle))};
    if (std::max(middle - begin, end - middle) - 1 > most) ++to.cut;
    else to.rows->add_row(row);
  }
}

// Adds the samples of a corpus, by the hashes of their first texts.
void add_samples(const CorpusPtr& corpus, const RowOptions& options, const ChooseRows& rows_for) {
  const Corpus::Documents& documents = corpus->documents();
  const int64_t P = corpus->facts().texts_of_sample, most = options.context / P;
  check(most > 0, "rows of {} tokens for {} texts each: expected at least one for each",
        options.context, P);
  size_t section = 0;
  int64_t begin = 0;
  std::vector<CorpusPiece> row;
  for (size_t first = 0; first < documents.ends.size(); first += static_cast<size_t>(P)) {
    SampleRows& to = rows_for(documents.sections[section]);
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
}

// The samples of training and test. Without a test of its own, a share of the samples is held out.
std::array<SampleRows, 2> arrange_samples(const Corpora& corpora, const RowOptions& options) {
  const auto& [train, test] = corpora;
  const auto add = train->facts().has_preferences ? add_preferences : add_samples;
  const auto rows_of = [&](const CorpusPtr& corpus) {
    return SampleRows{.rows = std::make_shared<CorpusRows>(corpus, options)};
  };
  std::array<SampleRows, 2> both{rows_of(train), rows_of(test ? test : train)};
  const double share = train->facts().hold_out;
  add(train, options,
      [&](uint64_t hash) -> SampleRows& { return both[!test && fraction_of(hash) < share]; });
  if (test == train) both[1] = both[0];
  else if (test) add(test, options, [&](uint64_t) -> SampleRows& { return both[1]; });
  return both;
}

// Numbers the texts that occur more than once, from 1 on; the others get 0. Does nothing if all
// texts are different.
void number_texts(const std::array<SampleRows, 2>& both) {
  const bool are_same = both[0].rows == both[1].rows;
  std::array<std::vector<uint64_t>, 2> hashes{both[0].rows->hashes(), {}};
  if (!are_same) hashes[1] = both[1].rows->hashes();
  std::unordered_map<uint64_t, int32_t> numbers;  // 0 for a text that has occurred once
  int32_t last = 0;
  for (const auto& some : hashes)
    for (const uint64_t hash : some)
      if (const auto [found, is_new] = numbers.emplace(hash, 0); !is_new && found->second == 0)
        found->second = ++last;
  if (last == 0) return;
  check(last < text_digit * text_digit, "{} texts occur more than once: expected fewer than {}",
        last, text_digit * text_digit);
  for (size_t i = 0; i < (are_same ? 1 : both.size()); ++i) {
    std::vector<int32_t> of_rows;
    for (const uint64_t hash : hashes[i]) of_rows.push_back(numbers.at(hash));
    both[i].rows->set_texts(std::move(of_rows));
  }
}

uint32_t crc_of(const std::string& text) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

using Read = void (CorpusRows::*)(std::span<int32_t>, int64_t) const;

// A field that reads `columns` numbers of a row.
Field field_of(const std::shared_ptr<const CorpusRows>& rows, const char* name, int64_t columns,
               int64_t classes, Read read) {
  return {.name = name,
          .values = Tensor::without_elements({rows->size(), columns}, DType::i32, Device::cpu),
          .encoding = Encoding::index,
          .classes = classes,
          .read = [rows, read](std::span<std::byte> row, int64_t n) {
            ((*rows).*read)(elements_of<int32_t>(row), n);
          }};
}

// A data set of the tokens and positions of these rows. `form` says how the rows were made.
Dataset dataset_of(const CorpusPtr& corpus, const std::shared_ptr<const CorpusRows>& rows,
                   const RowOptions& options, const std::string& form) {
  const CorpusFacts& facts = corpus->facts();
  const int64_t N = rows->size(), T = options.context;
  check(N <= std::numeric_limits<int32_t>::max(), "{} has {} rows of {} tokens, more than {}",
        facts.source, N, T, std::numeric_limits<int32_t>::max());
  Dataset set{facts.name, facts.source};
  set.fields = {field_of(rows, "tokens", T, facts.vocabulary, &CorpusRows::read_tokens),
                field_of(rows, "positions", T, T, &CorpusRows::read_positions)};
  set.checksum = [corpus, said = fmt::format("{} {}", T, form)] {
    return crc_of(fmt::format("{:08x} {}", corpus->checksum(), said));
  };
  return set;
}

Dataset dataset_of(const CorpusPtr& corpus, RowLayout& layout, const RowOptions& options,
                   const std::string& part) {
  const std::shared_ptr<const CorpusRows> rows = layout.finish();
  Dataset set =
      dataset_of(corpus, rows, options,
                 fmt::format("{}{} {}", name_in(document_rows_names(), options.documents),
                             layout.has_answers_beyond()
                                 ? " " + name_in(long_answers_names(), options.long_answers)
                                 : "",
                             part));
  const int64_t N = rows->size(), T = options.context;
  Field labels = field_of(rows, "labels", T, corpus->facts().vocabulary, &CorpusRows::read_labels);
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
  set.fields.push_back(field_of(samples.rows, "lengths", P, most + 1, &CorpusRows::read_lengths));
  if (samples.rows->has_texts())
    set.fields.push_back(
        field_of(samples.rows, "texts", 2 * P, text_digit, &CorpusRows::read_texts));
  set.about = fmt::format("{} of {} texts, {} of them cut to {} tokens",
                          counted(samples.rows->size(), "sample"), P, samples.cut, most);
  return set;
}

Dataset preferences_of(const CorpusPtr& corpus, const SampleRows& samples,
                       const RowOptions& options, const std::string& part) {
  Dataset set = dataset_of(corpus, samples.rows, options, "preferences " + part);
  set.fields.push_back(field_of(samples.rows, "answers", options.context,
                                corpus->facts().vocabulary, &CorpusRows::read_labels));
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

Datasets samples_of(const Corpora& corpora, const RowOptions& options) {
  const auto& corpus = corpora.train;
  const bool are_preferences = corpus->facts().has_preferences;
  const std::array<SampleRows, 2> both = arrange_samples(corpora, options);
  if (!are_preferences) number_texts(both);
  const auto make = [&](const CorpusPtr& of, const SampleRows& samples, const std::string& part) {
    return are_preferences ? preferences_of(of, samples, options, part)
                           : dataset_of(of, samples, options, part);
  };
  const auto& [train, test] = both;
  const std::string share =
      corpora.test ? "" : fmt::format("{} held out", corpus->facts().hold_out);
  Datasets sets{make(corpus, train, share),
                make(corpora.test ? corpora.test : corpus, test, share + " here")};
  sets.test.is_trained_on = corpora.test == corpus;
  check(sets.train.size() > 0 && sets.test.size() > 0,
        "{} has {} for training and {} for the test{}{}: expected some for both",
        corpus->facts().source, counted(sets.train.size(), "sample"),
        counted(sets.test.size(), "sample"),
        corpora.test ? "" : fmt::format(", if {} are held out", corpus->facts().hold_out),
        are_preferences ? fmt::format(" and {} left out, with a text of more than {} tokens",
                                      train.cut + test.cut, options.context / 2)
                        : "");
  return sets;
}

}  // namespace

const std::map<std::string, DocumentRows>& detail::document_rows_names() {
  static const std::map<std::string, DocumentRows> names{{"packed", DocumentRows::packed},
                                                         {"padded", DocumentRows::padded},
                                                         {"stream", DocumentRows::stream}};
  return names;
}

const std::map<std::string, LongAnswers>& detail::long_answers_names() {
  static const std::map<std::string, LongAnswers> names{{"leave-out", LongAnswers::leave_out},
                                                        {"cut", LongAnswers::cut}};
  return names;
}

AnswerCounts detail::count_answers(const Corpora& corpora, const RowOptions& options) {
  AnswerCounts counts;
  if (options.documents == DocumentRows::stream) return counts;
  for (const CorpusPtr& corpus : {corpora.train, corpora.test}) {
    if (!corpus || corpus->is_all_learned()) continue;
    int64_t begin = 0;
    for (const uint64_t document_end : corpus->documents().ends) {
      const auto end = static_cast<int64_t>(document_end);
      const auto answers = answers_in(*corpus, begin, end);
      counts.all += std::ssize(answers);
      counts.longer += std::ranges::count_if(answers, [&](const AnswerTokens& answer) {
        return !fits(answer, begin, options.context);
      });
      begin = end;
    }
  }
  return counts;
}

int64_t detail::samples_with_equal_positives(const Dataset& data) {
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
  if (train->facts().texts_of_sample > 1) return samples_of(corpora, options);
  std::array<RowLayout, 2> layouts{RowLayout(train, options),
                                   RowLayout(test ? test : train, options)};
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
  if (test)  // both get the larger number of classes
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
