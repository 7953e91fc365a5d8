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

// Text: language models (text/models.h), corpora of tokens (text/corpus.h) and the built-in grammar
// (text/grammar.h), as rows of tokens.
class Text : public Domain {
 public:
  RowOptions rows{.context = 256};
  TextModelSizes sizes;
  std::string base;              // a file whose weights a model has, fixed; empty: its own
  std::optional<int> base_bits;  // of those weights (text/base.h); none: as in the file
  LoraOptions lora;
  std::string sample_prompt;               // of what is written on the way; empty: held-out text
  std::optional<double> similarity_scale;  // none: that of TextPairOptions
  Duplicates duplicates = Duplicates::negatives;
  PreferenceOptions of_preferences;
  ControlInTexts control = ControlInTexts::tokens;  // of texts that no corpus has been made of
  std::optional<ChatForm> chat;                     // of texts that no corpus has been made of, and
  std::vector<std::string> fields;                  // names in them: PrepareTextOptions
  std::string tokenizer;  // of texts that no corpus has been made of; empty: the model's, or bytes
  Corpora given;          // what a caller has in memory, the data set `tokens`
  Metadata
      files;  // of a model from elsewhere (PretrainedModel::files), carried on with its weights
  KnownTokenizer learned_by;  // what weights say of their own, carried on, too
  std::string own_title;      // likewise (PretrainedModel::title)

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
  // The logits of rows of tokens that are a document each, or what embed() makes of these, if
  // embeds().
  Example example(const Layer& network, const SampleSpec& sample) const override;
  // Rows of so many tokens of such a vocabulary.
  static SampleSpec rows_of_tokens(int64_t tokens, int64_t vocabulary);
  // The network of this name for such rows, or that of the base.
  TextModelOptions network(const std::string& model, const NetworkOptions& options,
                           const SampleSpec& rows, const BasePtr& opened) const;
  // The tokens of the texts that given weights, or the base, are made for, if they say it.
  std::optional<int64_t> context_of_weights(const BasePtr& opened) const;
  ObjectivePtr objective(const Dataset& data) const override;
  // A vocabulary may be padded beyond the tokenizer's, as llm.c's is.
  std::optional<int64_t> classes_in(const std::string& weights) const override;
  // What they are of, and the files that they carry on.
  void remember(const std::string& weights, const Metadata& said) override;
  Metadata remembered() const override;
  Metadata taught_by(const Dataset& data) const override;
  // True if the weights that it begins with have learned from pairs of texts: what they answer is
  // embeddings, and nobody has trained their head.
  bool embeds() const { return weights_.embeds; }
  Metadata identity() const override;
  std::vector<std::string> warnings(const std::string& model, const Dataset& data) const override;
  // A warning of those that are longer than a row.
  std::string said_of(const AnswerCounts& answers) const;
  std::string where_it_answers() const override;
  Descriptions descriptions() const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override;
  bool heeds(const std::string& setting, const std::string& data) const override;
  Datasets load(const DataRequest& request) const override;
  // That of --base. Throws Error if there is none, and for another one than that of the weights
  // that it begins with.
  BasePtr open_base() const;
  // Makes it the options of the same model without adapters, as they are for merged weights.
  void leave_adapters();
  // That of a data set's tokens. Throws Error if none is known.
  TokenizerPtr tokenizer_of(const std::string& data) const;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;

  // The tokenizer that the model learned by, if the weights that it begins with, or the base, say
  // it.
  const KnownTokenizer& model_tokenizer() const;
  // The name of that for texts that the model reads or writes: the one asked for, or else the
  // model's own, or else bytes. Throws Error if that of the model is not found.
  std::string chosen_tokenizer(const std::string& asked) const;
  // Throws Error, naming both, for tokens of another tokenizer than the model's, which has a
  // vocabulary of so many; if that is not known, for a tokenizer of which such a vocabulary cannot
  // be. Nothing if there are neither weights nor a base.
  void check_tokenizer(const KnownTokenizer& of_tokens, int64_t vocabulary) const;

 private:
  KnownTokenizer tokenizer_of_data(const std::string& data, const Corpus& corpus) const;
  Corpora corpora(const std::string& data) const;

  // Texts that have been made tokens, which took a while.
  struct Prepared {
    std::string data, asked, base;  // the tokenizer and the base that were asked for
    ControlInTexts control = ControlInTexts::tokens;
    std::optional<ChatForm> chat{};
    std::vector<std::string> fields{};
    std::string tokenizer{};  // what was asked for came to
    CorpusPtr corpus{};
    std::vector<std::string> left_alone{}, warnings{};
  };
  mutable Prepared prepared_;
  struct Opened {
    std::string base;
    std::optional<int> bits;
    BasePtr file;
    std::optional<KnownTokenizer> tokenizer{};  // once somebody asked for it
  };
  mutable Opened opened_;
  mutable AnswerCounts answers_;           // of that, too
  mutable KnownTokenizer data_tokenizer_;  // of the data that was loaded last
  struct Weights {
    std::string file;
    std::optional<int64_t> context;
    std::string base_checksum;  // of what adapters are beside; empty if they do not say it
    bool embeds = false;
  };
  Weights weights_;  // that it begins with
};

inline constexpr const char* given_tokens = "tokens";

// The settings in which a model may differ from that of its name.
Settings settings_of_sizes(TextModelSizes& sizes);

// The domain of a request for a language model, with the sizes that the file of its weights says.
// Throws Error for weights of another network.
const Text& text_of(const Request& request);

}  // namespace detail

}  // namespace accrue
