// Documents in rows: each token occurs once, and its label is the next token.

#include "text/rows.h"

#include <numeric>
#include <set>

#include "core/random.h"
#include "data/loader.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "text/domain.h"

namespace accrue::test {
namespace {

constexpr int64_t vocabulary = 200'000;
constexpr int32_t end_of_text = vocabulary - 1;

// Token i of the corpus is the number i, which tells its place.
struct Counting {
  std::vector<int64_t> ends;
  std::vector<uint8_t> learned;
  CorpusPtr corpus;

  int64_t document_of(int64_t token) const {
    return std::ranges::upper_bound(ends, token) - ends.begin();
  }
  bool ends_document(int64_t token) const { return ends[size_t(document_of(token))] == token + 1; }
};

Counting counting(const std::vector<int64_t>& lengths, bool has_prompts = false,
                  double hold_out = 0.05) {
  Counting result;
  RandomStream random(5);
  CorpusWriter writer({.name = "counting",
                       .source = "test",
                       .vocabulary = vocabulary,
                       .end_of_text = end_of_text,
                       .hold_out = hold_out});
  int32_t next = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> document;
    std::vector<uint8_t> learned;
    for (int64_t i = 0; i < length; ++i) {
      document.push_back(next++);
      learned.push_back(!has_prompts || random.below(4) > 0);
    }
    writer.add(document, learned);
    result.ends.push_back(next);
    result.learned.insert(result.learned.end(), learned.begin(), learned.end());
  }
  result.corpus = writer.finish();
  return result;
}

std::vector<int64_t> some_lengths(int64_t documents, uint32_t most) {
  RandomStream random(most);
  std::vector<int64_t> lengths;
  for (int64_t d = 0; d < documents; ++d) lengths.push_back(1 + random.below(most));
  return lengths;
}

struct Row {
  std::vector<int32_t> tokens, labels, positions;
};

std::vector<Row> rows_in(const Dataset& data) {
  data.check_fields();
  std::vector<Row> rows;
  for (int64_t n = 0; n < data.size(); ++n) {
    const Samples sample = gather(data, n, n + 1);
    const auto values = [&](const char* field) {
      const auto all = sample[field].span<int32_t>();
      return std::vector<int32_t>(all.begin(), all.end());
    };
    rows.push_back({values("tokens"), values("labels"), values("positions")});
  }
  return rows;
}

int32_t expected_label(const Counting& all, int64_t next) {
  return all.learned[size_t(next)] ? int32_t(next) : not_judged;
}

// Adds the tokens of the rows to `seen`, and requires that no token comes twice. Returns the number
// of places with a token.
int64_t require_packed(const Counting& all, const std::vector<Row>& rows, std::set<int64_t>& seen) {
  int64_t places = 0;
  bool ok = true;
  for (const auto& [tokens, labels, positions] : rows)
    for (size_t t = 0; t < tokens.size(); ++t) {
      const int64_t token = tokens[t];
      if (token == end_of_text) {
        ok &= (labels[t] == not_judged);
        ok &= (positions[t] == 0);
        continue;
      }
      ++places;
      ok &= (seen.insert(token).second);
      ok &= (!all.ends_document(token));
      ok &= (labels[t] == expected_label(all, token + 1));
      const bool begins = t == 0 || tokens[t - 1] != token - 1 || all.ends_document(token - 1);
      ok &= (positions[t] == (begins ? 0 : positions[t - 1] + 1));
      // A part that begins in the middle of a document begins a whole number of rows after its
      // start.
      const int64_t d = all.document_of(token), start = d == 0 ? 0 : all.ends[size_t(d) - 1];
      const int64_t within = (token - start) % section_tokens;
      if (begins && all.ends[size_t(d)] - start <= section_tokens)
        ok &= (within % int64_t(tokens.size()) == 0);
    }
  REQUIRE(ok);
  return places;
}

int64_t inputs_in(const Counting& all) { return all.corpus->size() - std::ssize(all.ends); }

}  // namespace

TEST_CASE("each token of a document stands once in packed and padded rows", "[text]") {
  const bool has_prompts = GENERATE(false, true);
  const bool has_book = !has_prompts && GENERATE(false, true);
  std::vector<int64_t> lengths = some_lengths(300, 60);
  if (has_book) lengths.insert(lengths.end(), {2 * section_tokens + 77, 33});
  const Counting all = counting(lengths, has_prompts, 0.3);
  const std::vector<int64_t> contexts = has_book      ? std::vector<int64_t>{1000}
                                        : has_prompts ? std::vector<int64_t>{61}
                                                      : std::vector<int64_t>{1, 16, 32, 61};
  for (const int64_t T : contexts)
    for (const DocumentRows kind : {DocumentRows::packed, DocumentRows::padded}) {
      INFO("T " << T << " padded " << (kind == DocumentRows::padded));
      const Datasets sets = rows_of({all.corpus, nullptr}, {T, kind});
      std::set<int64_t> seen;
      const auto train = rows_in(sets.train), test = rows_in(sets.test);
      const int64_t places = require_packed(all, train, seen) + require_packed(all, test, seen);
      // If a part of a document is held out, the last token before it is only a label.
      REQUIRE(places >= inputs_in(all) - 2);
      REQUIRE(places <= inputs_in(all));
      REQUIRE(!train.empty());
      REQUIRE(!test.empty());
      std::set<int64_t> documents;
      for (const Row& row : test)
        for (const int32_t token : row.tokens)
          if (token != end_of_text) documents.insert(all.document_of(token));
      bool is_apart = true;
      for (const Row& row : train)
        for (const int32_t token : row.tokens)
          if (token != end_of_text && all.document_of(token) != 300)
            is_apart &= !documents.contains(all.document_of(token));
      REQUIRE(is_apart);
      if (kind == DocumentRows::padded)
        for (const Row& row : train) REQUIRE(std::ranges::count(row.positions, 1) <= 1);
      else if (T >= 61) REQUIRE(std::ssize(train) * T < 1.05 * double(places));
    }
  // If there is a corpus for the test, nothing is held out.
  const Datasets whole =
      rows_of({all.corpus, all.corpus}, {has_prompts ? 61 : 32, DocumentRows::packed});
  std::set<int64_t> seen, again;
  REQUIRE(require_packed(all, rows_in(whole.train), seen) == inputs_in(all));
  REQUIRE(require_packed(all, rows_in(whole.test), again) == inputs_in(all));
}

TEST_CASE("an answer longer than a row is left out or cut, and not learned without its question",
          "[text]") {
  // Token i is the number i. In a row of 8, the labels of a document are its tokens 1 to 8.
  CorpusWriter writer({.source = "test", .vocabulary = 200'000, .hold_out = 0.5});
  int32_t next = 0;
  const auto add = [&](const std::string& mask) {
    std::vector<int32_t> document(mask.size());
    std::iota(document.begin(), document.end(), next);
    next += static_cast<int32_t>(mask.size());
    std::vector<uint8_t> is_learned;
    for (const char c : mask) is_learned.push_back(c == 'A');
    writer.add(document, is_learned);
  };
  add("qqqqqAAAA");                             // from 0: as long as a row
  add("qqqqqAAAAA");                            // from 9: one token more
  add("qqAAqqqAAAqqAA");                        // from 19: the first of three answers fits
  add("qqqqqqqqqqAA");                          // from 33: even the question is too long
  add("AAAAAAAAAAAA");                          // from 45: a document without a question
  add("qAq" + std::string(33'000, 'q') + "A");  // from 57: several sections
  const CorpusPtr corpus = writer.finish();
  const auto labels = [&](const RowOptions& options) {
    const Datasets sets = rows_of({corpus, corpus}, options);
    std::vector<int32_t> all;
    for (const Row& row : rows_in(sets.train))
      std::ranges::copy_if(row.labels, std::back_inserter(all),
                           [](int32_t label) { return label != not_judged; });
    std::ranges::sort(all);
    return all;
  };
  using Labels = std::vector<int32_t>;
  const Labels whole{46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56};
  const auto with = [&](Labels some) {
    some.insert(some.end(), whole.begin(), whole.end());
    some.push_back(58);
    return some;
  };
  for (const DocumentRows kind : {DocumentRows::packed, DocumentRows::padded}) {
    RowOptions options{.context = 8, .documents = kind};
    REQUIRE(labels(options) == with({5, 6, 7, 8, 21, 22}));
    options.long_answers = LongAnswers::cut;
    REQUIRE(labels(options) == with({5, 6, 7, 8, 14, 15, 16, 17, 21, 22, 26, 27}));
  }
  const AnswerCounts counts = count_answers({corpus, nullptr}, {.context = 8});
  REQUIRE(counts.all == 8);
  REQUIRE(counts.longer == 5);
  // If the rows are long enough for all answers, the identity of the data does not depend on this
  // option.
  const auto checksum = [&](int64_t T, LongAnswers how) {
    return rows_of({corpus, corpus}, {.context = T, .long_answers = how}).train.checksum();
  };
  REQUIRE(checksum(8, LongAnswers::cut) != checksum(8, LongAnswers::leave_out));
  REQUIRE(checksum(40'000, LongAnswers::cut) == checksum(40'000, LongAnswers::leave_out));
  // A whole document is for training, or for the test.
  const Datasets halves = rows_of({corpus, nullptr}, {.context = 34'000});
  int64_t last = 0;
  for (const Dataset* each : {&halves.train, &halves.test})
    for (const Row& row : rows_in(*each)) last += std::ranges::count(row.labels, next - 1);
  REQUIRE(last == 1);
}

TEST_CASE("a stream is all documents as one", "[text]") {
  const Counting all = counting(some_lengths(40, 30), GENERATE(false, true), 0.3);
  const int64_t n = all.corpus->size();
  for (const int64_t T : {1, 7, 64, int(n) - 1, int(n)}) {
    INFO(T);
    bool ok = true;
    const auto rows = rows_in(rows_of({all.corpus, all.corpus}, {T, DocumentRows::stream}).train);
    REQUIRE(std::ssize(rows) == (n - 1 + T - 1) / T);
    for (int64_t i = 0; i < std::ssize(rows) * T; ++i) {
      const auto& [tokens, labels, positions] = rows[size_t(i / T)];
      const auto t = size_t(i % T);
      ok &= (tokens[t] == (i < n - 1 ? i : end_of_text));
      ok &= (labels[t] == (i < n - 1 ? expected_label(all, i + 1) : not_judged));
      ok &= (positions[t] == (i < n - 1 ? i % T : 0));
    }
    REQUIRE(ok);
    if (T == n) continue;
    // If documents are held out, each stream continues behind the gaps.
    std::set<int64_t> seen;
    const Datasets sets = rows_of({all.corpus, nullptr}, {T, DocumentRows::stream});
    for (const Dataset& set : {sets.train, sets.test}) {
      int64_t last = -1;
      for (const Row& row : rows_in(set))
        for (size_t t = 0; t < row.tokens.size(); ++t) {
          if (row.tokens[t] == end_of_text) continue;
          const int64_t token = row.tokens[t];
          ok &= last < 0 || token == last;
          ok &= seen.insert(token).second;
          ok &= row.positions[t] == int32_t(t);
          // The label is the next token.
          last = token + 1;
          if (all.ends_document(token)) last = row.labels[t];
          ok &= last < 0 || row.labels[t] == expected_label(all, last);
        }
    }
    REQUIRE(ok);
    REQUIRE(std::ssize(seen) == n - 2);
  }
}

TEST_CASE("new documents move no others between training and test", "[text]") {
  const auto held_out = [](int64_t begin, int64_t end) {
    CorpusWriter writer(
        {.source = "test", .vocabulary = 1000, .end_of_text = 999, .hold_out = 0.2});
    for (int64_t d = begin; d < end; ++d)
      writer.add(std::vector<int32_t>{int32_t(d), int32_t(d % 7), 999});
    const Datasets sets = rows_of({writer.finish(), nullptr}, {2, DocumentRows::padded});
    std::set<int32_t> documents;
    for (const Row& row : rows_in(sets.test)) documents.insert(row.tokens[0]);
    REQUIRE(sets.train.size() + sets.test.size() == end - begin);
    return documents;
  };
  const std::set<int32_t> few = held_out(300, 600), more = held_out(100, 800);
  REQUIRE(few.size() > 30);
  REQUIRE(few.size() < 90);
  for (int32_t d = 300; d < 600; ++d) REQUIRE(few.contains(d) == more.contains(d));
}

TEST_CASE("rows that make no sense are refused", "[text]") {
  const Corpora two{counting({1, 1}).corpus, nullptr}, one{counting({20}).corpus, nullptr};
  REQUIRE_ERROR(rows_of(two, {8}), "0 rows for training and 0 rows for the test");
  // If there are only a few documents, the one with the smallest hash is for the test.
  const Counting few = counting({4, 5, 6});
  const Datasets sets = rows_of({few.corpus, nullptr}, {8, DocumentRows::padded});
  REQUIRE(sets.train.size() == 2);
  REQUIRE(sets.test.size() == 1);
  REQUIRE_ERROR(rows_of(one, {8}), "if 0.05 of its 1 section are held out");
  REQUIRE_ERROR(rows_of(one, {0}), "a context of 0 tokens");
  REQUIRE_ERROR(rows_of(one, {1 << 24}), "expected 1 to 16777215");
  REQUIRE_ERROR(CorpusWriter({.hold_out = 0}), "a share of 0 to hold out");
  REQUIRE_ERROR(CorpusWriter({.hold_out = 1}), "a share of 1 to hold out");
}

TEST_CASE("rows are data that every part of the program takes", "[text]") {
  const auto rows = [&](int64_t T, DocumentRows kind, double share) {
    const Counting all = counting(some_lengths(200, 40), true, share);
    return rows_of({all.corpus, nullptr}, {T, kind});
  };
  const Datasets sets = rows(24, DocumentRows::packed, 0.2);
  const Dataset& data = sets.train;
  REQUIRE(data.bytes() == 0);
  REQUIRE(data.is_streamed());
  REQUIRE(Text().told_apart(Text().models().front(), data) == nullptr);
  REQUIRE(data.field("labels").classes == vocabulary);
  // The options that decide the rows decide the identity of the data.
  std::set<uint32_t> checksums{data.checksum(), sets.test.checksum()};
  for (const Datasets& other :
       {rows(25, DocumentRows::packed, 0.2), rows(24, DocumentRows::padded, 0.2),
        rows(24, DocumentRows::packed, 0.3)})
    checksums.insert(other.train.checksum());
  REQUIRE(checksums.size() == 5);
  REQUIRE(rows(24, DocumentRows::packed, 0.2).train.checksum() == data.checksum());

  // Only a field that declares it may have labels that are not judged.
  Dataset held = data;
  held.fields[1].read = nullptr;
  held.fields[1].values = Tensor::from(
      std::vector<int32_t>(static_cast<size_t>(24 * data.size()), not_judged), {data.size(), 24});
  gather(held, 0, 1);
  held.fields[1].has_not_judged = false;
  REQUIRE_ERROR(gather(held, 0, 1), "sample 0 has -1 in its labels");
}

TEST_CASE("a loader yields the same rows for any split, and after a pause", "[text]") {
  const Counting all = counting(some_lengths(150, 40), true, 0.2);
  const Dataset data = rows_of({all.corpus, nullptr}, {24, DocumentRows::packed}).train;
  const auto yielded = [&](int64_t micro, int64_t window) {
    Loader loader(
        data,
        {.effective_batch_size = 6, .micro_batch_size = micro, .seed = 3, .device = test_device()});
    std::vector<int32_t> rows;
    const auto add = [&](const Tensor& values) {
      const Tensor host = on_host(values);
      rows.insert(rows.end(), host.span<int32_t>().begin(), host.span<int32_t>().end());
    };
    loader.start_epoch(2, window);
    while (const MicroBatch* part = loader.next())
      for (int64_t k = 0; k < part->size(); ++k) {
        add(part->indices.slice(k, k + 1));
        for (const Samples::Field& field : part->fields) add(field.values.slice(k, k + 1));
      }
    return rows;
  };
  const std::vector<int32_t> whole = yielded(1, 0), resumed = yielded(1, 2);
  REQUIRE(std::ssize(whole) == data.size() * (1 + 3 * 24));
  REQUIRE(std::ranges::equal(resumed, std::span(whole).last(resumed.size())));
  for (const int64_t micro : {2, 3}) {
    REQUIRE(yielded(micro, 0) == whole);
    REQUIRE(yielded(micro, 2) == resumed);
  }
}

}  // namespace accrue::test
