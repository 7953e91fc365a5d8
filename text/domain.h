#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/base.h"
#include "text/documents.h"
#include "text/models.h"
#include "text/preferences.h"
#include "text/rows.h"
#include "text/text_pairs.h"
#include "text/tokenizers.h"
#include "train/domain.h"

namespace accrue {

struct Request;

namespace detail {

// The domain of text: language models (text/models.h) on rows of tokens, from corpora
// (text/corpus.h) or the built-in grammar (text/grammar.h).
class Text : public Domain {
 public:
  RowOptions rows{.context = 256};
  TextModelSizes sizes;
  std::string base;  // a file with fixed weights of the model; empty: the model has its own weights
  std::optional<int> base_bits;  // of those weights (text/base.h); none: as in the file
  LoraOptions lora;
  std::string sample_prompt;               // of samples during training; empty: held-out text
  std::optional<double> similarity_scale;  // none: the default of TextPairOptions
  Duplicates duplicates = Duplicates::negatives;
  PreferenceOptions of_preferences;
  ControlInTexts control = ControlInTexts::tokens;  // for texts that are not a corpus yet
  std::optional<ChatForm> chat;                     // for texts that are not a corpus yet
  std::vector<std::string> fields;                  // names of their fields: PrepareTextOptions
  std::string tokenizer;   // of texts that are not a corpus yet; empty: the model's, or bytes
  Corpora given;           // the data set `tokens`, which a caller has in memory
  std::string test_texts;  // for texts that are not a corpus yet; empty: some of them are held out
  Metadata files;          // of an imported model (PretrainedModel::files), kept with its weights
  KnownTokenizer learned_by;  // the tokenizer that weights name, kept with them
  std::string own_title;      // PretrainedModel::title, kept with the weights

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Text>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Text>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Text&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::string networks_heading() const override { return "Language models"; }
  std::vector<DomainModel> models() const override;
  std::string implied_model(const std::string& asked) const override;
  std::string title(const std::string& model) const override;
  bool is_called(const std::string& model, const std::string& name) const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // The logits of rows of tokens, each of which is a document; their embeddings (embed()) if
  // embeds().
  Example example(const Layer& network, const SampleSpec& sample, int64_t N) const override;
  // Rows of this many tokens from a vocabulary of this size.
  static SampleSpec rows_of_tokens(int64_t tokens, int64_t vocabulary);
  // The network of this name for such rows, or the network of the base.
  TextModelOptions network(const std::string& model, const NetworkOptions& options,
                           const SampleSpec& rows, const BasePtr& opened) const;
  // The length of text that the given weights, or the base, are made for, if they say it.
  std::optional<int64_t> context_of_weights(const BasePtr& opened) const;
  ObjectivePtr objective(const Dataset& data) const override;
  // A vocabulary may be padded beyond the tokenizer's, as llm.c's is.
  std::optional<int64_t> classes_in(const std::string& weights) const override;
  // The base and tokenizer that the weights name, and the files that they keep.
  void remember(const std::string& weights, const Metadata& said) override;
  Metadata remembered() const override;
  Metadata taught_by(const Dataset& data) const override;
  // True if the weights that it begins with have learned from pairs of texts: the model computes
  // embeddings, and its head is untrained.
  bool embeds() const { return weights_.embeds; }
  Metadata identity() const override;
  std::vector<std::string> warnings(const std::string& model, const Dataset& data) const override;
  // A warning about answers that are longer than a row.
  std::string said_of(const AnswerCounts& answers) const;
  std::string where_it_answers() const override;
  Descriptions descriptions() const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override;
  bool heeds(const std::string& setting, const std::string& data) const override;
  Datasets load(const DataRequest& request) const override;
  // Opens the file of --base. Throws Error if there is none, or if the initial weights have another
  // base.
  BasePtr open_base() const;
  // Changes the options to the same model without adapters, as for merged weights.
  void leave_adapters();
  // The tokenizer of a data set. Throws Error if it is unknown.
  TokenizerPtr tokenizer_of(const std::string& data) const;
  // Texts as a corpus, with the tokenizer and the other settings of the data. Throws Error unless
  // these are texts, too.
  CorpusPtr corpus_like(const std::string& data, const std::string& texts) const;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;

  // The tokenizer that the model learned with, if its initial weights or the base say it.
  const KnownTokenizer& model_tokenizer() const;
  // The name of the tokenizer for texts that the model reads or writes: the one asked for, or else
  // the model's own, or else bytes. Throws Error if the model's tokenizer is not found.
  std::string chosen_tokenizer(const std::string& asked) const;
  // Throws Error, which names both tokenizers, if tokens come from another tokenizer than that of
  // the model, whose vocabulary has this size. If the model's tokenizer is unknown, throws Error if
  // a tokenizer cannot have such a vocabulary. Does nothing if there are neither weights nor a
  // base.
  void check_tokenizer(const KnownTokenizer& of_tokens, int64_t vocabulary) const;

 private:
  KnownTokenizer tokenizer_of_data(const std::string& data, const Corpus& corpus) const;
  Corpora corpora(const std::string& data) const;
  CorpusPtr with_test_texts(const CorpusPtr& train) const;

  // Texts that have been tokenized, which took a while.
  struct Prepared {
    std::string data, asked, base;  // the tokenizer and the base in the request
    ControlInTexts control = ControlInTexts::tokens;
    std::optional<ChatForm> chat{};
    std::vector<std::string> fields{};
    std::string tokenizer{};  // the tokenizer that was chosen
    CorpusPtr corpus{};
    std::string test_texts{};
    CorpusPtr test{};
    std::vector<std::string> left_alone{}, warnings{};
  };
  mutable Prepared prepared_;
  struct Opened {
    std::string base;
    std::optional<int> bits;
    BasePtr file;
    std::optional<KnownTokenizer> tokenizer{};  // read when it is first needed
  };
  mutable Opened opened_;
  mutable AnswerCounts answers_;           // of `prepared_`, too
  mutable KnownTokenizer data_tokenizer_;  // of the data loaded last
  struct Weights {
    std::string file;
    std::optional<int64_t> context;
    std::string base_checksum;  // of the base of adapters; empty if they do not name it
    bool embeds = false;
  };
  Weights weights_;  // the initial weights
};

inline constexpr const char* given_tokens = "tokens";

// The settings by which a model may differ from the known model of its name.
Settings settings_of_sizes(TextModelSizes& sizes);

// The domain of a request for a language model, with the sizes that the file of weights gives.
// Throws Error if the weights are of another kind of network.
const Text& text_of(const Request& request);

}  // namespace detail

}  // namespace accrue
