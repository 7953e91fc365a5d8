// Loads corpora and texts for language models, and checks that the tokenizers match.

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "text/domain.h"
#include "text/grammar.h"
#include "text/prepare.h"
#include "text/text_files.h"
#include "text/tokenizers.h"

namespace accrue {
namespace {

// True for texts that are tokenized when they are loaded.
bool is_of_texts(const std::string& data) {
  return !holds_corpus(data) && (holds_json_lines(data) || holds_texts(data));
}

// The kind of a corpus's samples, in words.
std::string samples_in(const CorpusFacts& facts) {
  if (facts.has_preferences) return "preferences";
  if (facts.texts_of_sample == 1) return "texts";
  return facts.texts_of_sample == 2 ? "pairs of texts" : "triples of texts";
}

}  // namespace

Domain::Claim Text::claim(const std::string& data) const {
  const bool is_known = std::ranges::count(data_sets(), data) > 0;
  std::error_code ignored;
  const bool is_table = !table_because(data).empty() && std::filesystem::exists(data, ignored);
  return is_known || is_table || holds_corpus(data) || is_of_texts(data) ? Claim::own : Claim::none;
}

std::vector<std::string> Text::data_sets() const {
  std::vector<std::string> names{"grammar"};
  if (given.train) names.emplace_back(given_tokens);
  return names;
}

bool Text::heeds(const std::string& setting, const std::string& data) const {
  if (setting == "tokenizer" || setting == "text-may-contain-control") return is_of_texts(data);
  if (setting == "chat" || setting == "field") return holds_json_lines(data);
  check(setting != "hold-out" || (!holds_corpus(data) && !is_of_texts(data)),
        "--hold-out is decided when a corpus is made: expected it of `accrue text prepare`");
  if (data == "grammar") return setting == "documents";
  const CorpusFacts facts = corpora(data).train->facts();
  if (facts.has_preferences) return setting.starts_with("dpo-");
  const bool is_of_pairs = setting == "similarity-scale" || setting == "duplicates";
  const bool is_of_samples = facts.texts_of_sample > 1;
  if (setting == "long") return !is_of_samples && !corpora(data).train->is_all_learned();
  return is_of_samples ? is_of_pairs : setting == "documents";
}

Corpora Text::corpora(const std::string& data) const {
  if (given.train && data == given_tokens) return given;
  check(test_texts.empty() || is_of_texts(data),
        "the test is texts, but '{}' is not: expected texts in both", data);
  if (data == "grammar") return grammar_corpora();
  check(table_because(data).empty(), "'{}' is {}", data, table_because(data));
  if (!is_of_texts(data)) return open_corpora(data);
  // Lines of JSON are read as bytes by default, as in earlier versions.
  check(
      holds_json_lines(data) || !tokenizer.empty() || !model_tokenizer().place.empty(),
      "'{0}' holds texts, and which tokenizer they are for is not known: expected --tokenizer, or "
      "a corpus, which `accrue text prepare --text {0} --tokenizer FILE|DIR --out DIR` makes of "
      "them",
      data);
  if (!prepared_.corpus || prepared_.data != data || prepared_.asked != tokenizer ||
      prepared_.base != base || prepared_.chat != chat || prepared_.fields != fields ||
      prepared_.control != control) {
    const std::string chosen = chosen_tokenizer(tokenizer);
    PreparedText made = prepare_text(
        {.texts = {data}, .tokenizer = chosen, .control = control, .chat = chat, .fields = fields});
    prepared_ = {.data = data,
                 .asked = tokenizer,
                 .base = base,
                 .control = control,
                 .chat = chat,
                 .fields = fields,
                 .tokenizer = chosen,
                 .corpus = std::move(made.corpus),
                 .left_alone = std::move(made.left_alone),
                 .warnings = std::move(made.warnings)};
  }
  return {prepared_.corpus, with_test_texts(prepared_.corpus)};
}

CorpusPtr Text::with_test_texts(const CorpusPtr& train) const {
  if (test_texts.empty()) return nullptr;
  if (!prepared_.test || prepared_.test_texts != test_texts) {
    prepared_.test = corpus_like(prepared_.data, test_texts);
    prepared_.test_texts = test_texts;
  }
  const std::string learned = samples_in(train->facts()),
                    scored = samples_in(prepared_.test->facts());
  check(learned == scored, "the data are {}, but the test has {}: expected the same in both",
        learned, scored);
  return prepared_.test;
}

CorpusPtr Text::corpus_like(const std::string& data, const std::string& texts) const {
  check(is_of_texts(data), "the data '{}' are no texts: expected tokens, as in the data", data);
  PreparedText made = prepare_text({.texts = {texts},
                                    .tokenizer = chosen_tokenizer(tokenizer),
                                    .control = control,
                                    .chat = chat,
                                    .fields = fields});
  return made.corpus;
}

Datasets Text::load(const DataRequest& request) const {
  const Corpora read = corpora(request.data);
  // Only for tokens in memory: for other data, check_tokenizer() names the tokenizer that does not
  // match.
  const auto known = base.empty() ? request.known_classes : classes_in({});
  if (read.train == given.train && known)
    for (const CorpusPtr& corpus : {read.train, read.test}) check_tokens(*corpus, *known);
  data_tokenizer_ = tokenizer_of_data(request.data, *read.train);
  if (known && data_tokenizer_.size > 0) check_tokenizer(data_tokenizer_, *known);
  answers_ = count_answers(read, rows);
  return rows_of(read, rows);
}

const KnownTokenizer& Text::model_tokenizer() const {
  if (learned_by.is_known() || base.empty()) return learned_by;
  open_base();
  if (!opened_.tokenizer)
    opened_.tokenizer = base.ends_with(".gguf")
                            ? tokenizer_in_gguf(base)
                            : tokenizer_said_in(read_safetensors_metadata(base));
  return *opened_.tokenizer;
}

std::string Text::chosen_tokenizer(const std::string& asked) const {
  if (!asked.empty()) return asked;
  const KnownTokenizer& own = model_tokenizer();
  if (own.place.empty()) return "bytes";
  return find_tokenizer(own, learned_by.is_known() ? weights_.file : base, base);
}

void Text::check_tokenizer(const KnownTokenizer& of_tokens, int64_t vocabulary) const {
  const std::string& model = weights_.file.empty() ? base : weights_.file;
  if (model.empty()) return;
  const KnownTokenizer& own = model_tokenizer();
  if (own.is_known() && of_tokens.is_known()) {
    check(own.checksum == of_tokens.checksum,
          "the tokens come from the tokenizer '{}' (checksum {}), but {} learned by {} "
          "(checksum {}): expected that one as --tokenizer, or a corpus that it made",
          of_tokens.place, of_tokens.checksum, model,
          own.place == model ? "its own" : fmt::format("'{}'", own.place), own.checksum);
    return;
  }
  check(may_be_padded(vocabulary, of_tokens.size),
        "the tokenizer {} has {} tokens, but {} is of a model of {}: expected --tokenizer with the "
        "one that it learned by, or a corpus that it made",
        of_tokens.place, of_tokens.size, model, vocabulary);
}

// Corpora written by earlier versions have no checksum.
KnownTokenizer Text::tokenizer_of_data(const std::string& data, const Corpus& corpus) const {
  const CorpusFacts& facts = corpus.facts();
  if (given.train && data == given_tokens) return {};
  KnownTokenizer known{.checksum = facts.tokenizer_checksum, .size = facts.vocabulary};
  const std::filesystem::path file = facts.tokenizer;
  if (is_of_texts(data)) known.place = prepared_.tokenizer;
  else if (file.empty()) known.place = fmt::format("of {}, GPT-2's,", data);
  else if (file == "bytes") known.place = "bytes";
  else known.place = file.parent_path().string();
  std::error_code ignored;
  if (!known.is_known() && (file == "bytes" || std::filesystem::exists(file, ignored)))
    known.checksum = tokenizer_checksum(*corpus.tokenizer());
  return known;
}

TokenizerPtr Text::tokenizer_of(const std::string& data) const {
  if (data == "grammar") return bytes_tokenizer();
  return is_of_texts(data) ? tokenizer_at(chosen_tokenizer(tokenizer))
                           : corpora(data).train->tokenizer();
}

void Text::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  check(data.train.has("tokens"),
        "--model {} is a language model, but the data set {} has {}: expected --data grammar, or a "
        "corpus that `accrue text prepare` has made, or a file of JSON lines",
        model.name, request.data, data.train.fields.front().name);
}

}  // namespace accrue
