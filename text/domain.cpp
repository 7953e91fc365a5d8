#include "text/domain.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "core/inside.h"
#include "data/safetensors.h"
#include "job/request.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/segment_mean.h"
#include "text/base.h"
#include "text/language_model.h"
#include "text/language_modeling.h"
#include "text/text_pairs.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue {
namespace {

bool is_embedding_of_tokens(const std::string& name) {
  return name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight");
}

bool is_embedding_of_positions(const std::string& name) { return name.ends_with("wpe.weight"); }

// The number of rows of the tensor that `wanted` selects, if the file has it.
std::optional<int64_t> rows_in(const std::string& weights, const TensorFilter& wanted) {
  const SafetensorsHeader header = read_safetensors_header(weights, wanted);
  if (header.entries.empty()) return std::nullopt;
  return header.entries.front().shape[0];
}

std::optional<int64_t> vocabulary_in(const std::string& weights) {
  return rows_in(weights, is_embedding_of_tokens);
}

// The length of the texts that the weights in a file were made for or have learned from. For a GPT
// it is the number of positions with an embedding. For a Llama it is the number in the metadata, or
// else the larger of two numbers: the length for the known model of its name, and the length of the
// rows that it has learned from.
std::optional<int64_t> context_of(const std::string& weights, const Metadata& said,
                                  const TextModelSizes& sizes) {
  if (const auto positions = rows_in(weights, is_embedding_of_positions)) return positions;
  const auto model = said.find("model"), rows = said.find("image");
  if (sizes.positions) return sizes.positions;
  if (model == said.end() || rows == said.end()) return {};
  const TextModelOptions named = text_model(model->second);
  const auto* const llama = std::get_if<LlamaOptions>(&named);
  if (!llama) return {};
  int64_t row = 0;
  std::istringstream(rows->second) >> row;
  return std::max(llama->context, row);
}

// The number of tokens of a row; 1 if the weights do not say it.
int64_t tokens_of(const SampleSpec& rows) {
  const Shape& row = rows.input().shape;
  return row.rank() > 0 ? row[0] : 1;
}

constexpr const char *base_checksum_name = "base-checksum", *title_name = "model-name";
// How the states of a text's tokens become an embedding.
constexpr const char *embeddings_name = "embeddings", *embeddings_of_pairs = "mean, norm 1";

// Takes the files of an imported model from the metadata of its weights. Ignores other names,
// because these files will be written under their names.
void take_files(const Metadata& said, Metadata& files) {
  for (const char* const name : {"config.json", "generation_config.json", gguf_general_name})
    if (const auto found = said.find(name); found != said.end()) files[name] = found->second;
}

// The model that a file of accrue's weights describes.
PretrainedModel model_said_in(const std::string& weights) {
  const Metadata said = read_safetensors_metadata(weights);
  const auto text = [&](const std::string& name) {
    const auto found = said.find(name);
    return found == said.end() ? std::string() : found->second;
  };
  check(text("lora").empty(),
        "'{}' has adapters already: expected weights without, or merged ones (accrue text merge), "
        "as --base",
        weights);
  const auto vocabulary = vocabulary_in(weights);
  check(vocabulary && !text("model").empty(),
        "'{}' does not say which language model its weights are of: expected a file of `accrue "
        "text import` or train --save as --base",
        weights);
  PretrainedModel model{.name = text("model"), .vocabulary = *vocabulary};
  model.title = text(text(title_name).empty() ? "model" : title_name);
  for (const Setting& size : settings_of_sizes(model.sizes))
    if (!text(size.about.name).empty()) size.set(text(size.about.name));
  model.context = context_of(weights, said, model.sizes).value_or(0);
  take_files(said, model.files);
  return model;
}

}  // namespace

SampleSpec Text::rows_of_tokens(int64_t tokens, int64_t vocabulary) {
  const Shape row{tokens};
  return {{{"tokens", Encoding::index, row, vocabulary},
           {"positions", Encoding::index, row, tokens, true},
           {"labels", Encoding::index, row, vocabulary}}};
}

std::vector<DomainModel> Text::models() const {
  std::vector<DomainModel> models;
  for (const std::string& name : text_model_names()) {
    std::vector<std::string> heeds{"sample-every"};
    if (std::holds_alternative<Gpt2Options>(text_model(name))) heeds.emplace_back("dropout");
    models.push_back({.name = name,
                      .sample = rows_of_tokens(rows.context, 257),
                      .data = "grammar",
                      .heeds = std::move(heeds),
                      .is_scored_on_test = true,
                      .pieces = "tokens",
                      .no_decay = {"vectors"}});
  }
  return models;
}

std::string Text::implied_model(const std::string& asked) const {
  if (base.empty()) return {};
  const PretrainedModel& there = open_base()->model();
  const std::vector<std::string> known = text_model_names();
  check(asked.empty() || asked == there.name || asked == there.title ||
            (std::ranges::count(known, asked) > 0 &&
             have_same_sizes(text_model(asked), text_model(there.name, there.sizes))),
        "--model {}, but the base '{}' is a {}: expected no --model", asked, base, there.title);
  return there.name;
}

std::string Text::title(const std::string& model) const {
  const std::string& own = base.empty() ? own_title : open_base()->model().title;
  return own.empty() ? model : own;
}

bool Text::is_called(const std::string& model, const std::string& name) const {
  const std::vector<std::string> known = text_model_names();
  return name == title(model) || (std::ranges::count(known, name) > 0 &&
                                  have_same_sizes(text_model(name), text_model(model, sizes)));
}

ModelFactory Text::factory(const std::string& model, const NetworkOptions& options,
                           const SampleSpec& sample) const {
  check(options.width == 1,
        "--width is a factor on the channels of images' models: expected --hidden-size for {}",
        model);
  const BasePtr opened = base.empty() ? nullptr : open_base();
  if (opened) {
    const PretrainedModel& there = opened->model();
    check(lora.rank.has_value(),
          "the weights of --base {} are fixed, and nothing would be trained: expected adapters, "
          "such as --lora 8",
          base);
    check(sample.classes() <= there.vocabulary,
          "the data has {} tokens, but the base '{}' {}: expected a corpus of the base's tokenizer "
          "(accrue text prepare --tokenizer {})",
          sample.classes(), base, there.vocabulary, base);
  }
  return [chosen = network(model, options, sample, opened), lora = lora, opened] {
    return make_text_model(chosen, lora, opened);
  };
}

Example Text::example(const Layer& network, const SampleSpec& sample, int64_t N) const {
  check(base.empty(),
        "an ONNX file has numbers in float32, but the weights of the base '{}' stay as they are "
        "stored: expected merged ones (accrue text merge)",
        base);
  const LanguageModel& model = LanguageModel::of(network);
  // Sizes that are all different.
  const int64_t E = model.head().size(1), most = tokens_of(sample),
                T = std::min<int64_t>(E == 3 ? 4 : 3, most);
  const Tensor tokens = Tensor::from(std::vector<int32_t>(size_t(N * T)), {N, T});
  const Tensor positions = positions_of(tokens);
  if (embeds()) {
    const Tensor lengths = Tensor::from(std::vector<int32_t>(size_t(N), 1), {N});
    const Tensor gamma = Tensor::full({E}, 1 / std::sqrt(double(E)), DType::f32, Device::cpu);
    return {.inputs = {{sample.input().name, tokens}, {"lengths", lengths}},
            .free_sizes = {"batch", "tokens"},
            .answer_names = {"embeddings"},
            // Computes embed(). Its constant is made outside, in memory that no computed tensor has
            // used.
            .answers =
                [=, &model] {
                  const Tensor means = segment_mean(model.states({tokens, positions}, Pass::eval()),
                                                    lengths.reshape({N, 1}));
                  return std::vector{rms_norm(means.reshape({N, E}), gamma, 1e-24)};
                },
            .positions = positions,
            .most_positions = most};
  }
  return {
      .inputs = {{sample.input().name, tokens}},
      .free_sizes = {"batch", "tokens"},
      .answer_names = {"logits"},
      .answers =
          [=, &model] {
            const Tensor x = model.states({tokens, positions}, Pass::eval());
            const Tensor logits = linear(x.reshape({tokens.numel(), x.size(2)}), model.head(), {});
            return std::vector{logits.reshape({N, T, logits.size(1)})};
          },
      .positions = positions,
      .most_positions = most};
}

TextModelOptions Text::network(const std::string& model, const NetworkOptions& options,
                               const SampleSpec& rows, const BasePtr& opened) const {
  const int64_t T = tokens_of(rows);
  TextModelOptions chosen =
      opened ? text_model(opened->model().name, opened->model().sizes) : text_model(model, sizes);
  if (const auto context = context_of_weights(opened)) {
    std::visit([&](auto& o) { o.context = *context; }, chosen);
    check(T <= *context || std::holds_alternative<LlamaOptions>(chosen),
          "rows of {} tokens, but the model of {} has an embedding for {} positions: expected a "
          "--context of {} at most",
          T, opened ? base : weights_.file, *context, *context);
  }
  return text_model_for(chosen, opened ? opened->model().vocabulary : rows.classes(), T,
                        options.dropout);
}

std::optional<int64_t> Text::context_of_weights(const BasePtr& opened) const {
  if (!opened) return weights_.context;
  const int64_t context = opened->model().context;
  return context > 0 ? std::optional(context) : std::nullopt;
}

void Text::remember(const std::string& weights, const Metadata& said) {
  const auto checksum = said.find(base_checksum_name), place = said.find("base");
  weights_ = {weights, context_of(weights, said, sizes),
              checksum == said.end() ? "" : checksum->second, said.contains(embeddings_name)};
  take_files(said, files);
  const auto called = said.find(title_name);
  own_title = called == said.end() ? "" : called->second;
  learned_by = tokenizer_said_in(said);
  if (!learned_by.is_known()) learned_by = tokenizer_beside(weights);
  prepared_ = {};
  // Looks for the base at its place in training, or else beside the adapters.
  std::error_code ignored;
  const std::filesystem::path there = base, here = std::filesystem::path(weights).parent_path() /
                                                   there.filename();
  const bool is_as_said = place != said.end() && !base.empty() && place->second == base;
  if (is_as_said && !std::filesystem::exists(there, ignored) &&
      std::filesystem::exists(here, ignored))
    base = here.string();
}

void Text::leave_adapters() {
  lora = {};
  if (base.empty()) return;
  const PretrainedModel& there = open_base()->model();
  sizes = there.sizes;
  files = there.files;
  own_title = there.title;
  weights_.context.reset();
  if (there.context > 0) sizes.positions = weights_.context = there.context;
  base.clear();
  base_bits.reset();
}

Metadata Text::remembered() const {
  Metadata all = files;
  if (embeds()) all[embeddings_name] = embeddings_of_pairs;
  if (!base.empty()) all[base_checksum_name] = open_base()->checksum();
  if (const std::string own = title({}); !own.empty()) all[title_name] = own;
  add_tokenizer(data_tokenizer_.is_known() ? data_tokenizer_ : model_tokenizer(), all);
  return all;
}

Metadata Text::taught_by(const Dataset& data) const {
  return {{embeddings_name, data.has("lengths") ? embeddings_of_pairs : ""}};
}

// The contents of the base identify it, wherever its file lies.
Metadata Text::identity() const {
  if (base.empty()) return {};
  return {{"base", open_base()->checksum()}};
}

std::vector<std::string> Text::warnings(const std::string& model, const Dataset& data) const {
  const BasePtr opened = base.empty() ? nullptr : open_base();
  std::vector<std::string> all = opened ? opened->model().warnings : std::vector<std::string>{};
  if (opened && base.ends_with(".safetensors") && !base_bits && holds_float64(base))
    all.push_back(fmt::format("{} holds float64, which is rounded to float32", base));
  for (const std::string& each : prepared_.left_alone) all.push_back("left alone: " + each);
  for (const std::string& each : prepared_.warnings) all.push_back(each);
  if (answers_.longer > 0) all.push_back(said_of(answers_));
  const int64_t texts = data.has("lengths")   ? data.field("lengths").values.size(1)
                        : data.has("answers") ? 2
                                              : 1;
  const int64_t T = data.field("tokens").values.size(1) / texts;
  const bool is_limited = std::holds_alternative<Gpt2Options>(text_model(model));
  if (const auto context = context_of_weights(opened); context && T > *context && !is_limited)
    all.push_back(
        fmt::format("rows of {} tokens, but the model of {} is made for {}: it has not learned "
                    "from longer texts",
                    T, opened ? base : weights_.file, *context));
  if (opened && !model_tokenizer().place.empty() && !model_tokenizer().is_known())
    all.push_back(fmt::format(
        "accrue cannot read this kind of tokenizer in {}, and does not check whether it made "
        "the data",
        base));
  if (duplicates == Duplicates::ignore || !data.has("texts")) return all;
  if (const int64_t equal = samples_with_equal_positives(data); equal > 0)
    all.push_back(fmt::format(
        "{} of {} samples have a positive that is also a positive or a negative of other samples. "
        "In a window with these, it counts as a negative: expected a training with --duplicates "
        "ignore, or each text once",
        equal, data.size()));
  return all;
}

std::string Text::said_of(const AnswerCounts& answers) const {
  const bool are_cut = rows.long_answers == LongAnswers::cut;
  return fmt::format(
      "{} of {} answers are longer than a row of {} tokens with their question and were {}: "
      "expected a larger --context{}",
      answers.longer, answers.all, rows.context, are_cut ? "cut" : "left out",
      are_cut ? "" : ", or --long cut");
}

ObjectivePtr Text::objective(const Dataset& data) const {
  if (data.has("answers")) return preferences(of_preferences);
  if (!data.has("lengths")) return language_modeling();
  return text_pairs({.scale = similarity_scale.value_or(TextPairOptions{}.scale),
                     .duplicates = duplicates,
                     .some_are_equal = data.has("texts")});
}

std::optional<int64_t> Text::classes_in(const std::string& weights) const {
  return base.empty() ? vocabulary_in(weights) : open_base()->model().vocabulary;
}

BasePtr Text::open_base() const {
  const bool is_gguf = base.ends_with(".gguf");
  check(!is_gguf || !base_bits,
        "the weights of {} stay in the types that it has: expected --base-bits with a --base "
        "FILE.safetensors, or none",
        base);
  if (!opened_.file || opened_.base != base || opened_.bits != base_bits) {
    BasePtr file;
    if (is_gguf) file = std::make_shared<const GgufBase>(base);
    else file = std::make_shared<const SafetensorsBase>(base, model_said_in(base), base_bits);
    opened_ = {base, base_bits, std::move(file)};
  }
  const std::string& expected = weights_.base_checksum;
  check(expected.empty() || opened_.file->checksum() == expected,
        "'{}' is not the base of the adapters in {}: its checksum is {}, expected {}, that of the "
        "file that they were trained beside",
        base, weights_.file, opened_.file->checksum(), expected);
  return opened_.file;
}

std::string Text::where_it_answers() const {
  return embeds() ? "embeddings of texts are made by accrue.predict() in Python, and by the file "
                    "that accrue export writes"
                  : "a language model writes by accrue text write, and is scored by accrue eval";
}

Descriptions Text::descriptions() const {
  return {
      {"perplexity", "exp(loss): the perplexity of a guess among this many equally likely tokens."},
      {"tokens", "Tokens that count."},
      {"recall@1",
       "Percentage of held-out anchors to which no text is nearer than their positive."},
      {"reward_accuracy",
       "Percentage of held-out pairs whose chosen answer has become likelier than the rejected "
       "one, compared "
       "with the base."},
      {"reward_margin",
       "By how much likelier, on average: beta times the difference of log probabilities."},
      {"sample", "The text that the model writes after a prompt."}};
}

const Text& detail::text_of(const Request& request) {
  const Text* const text = request.domains.of_model_as<Text>(request.model_name);
  check(text != nullptr,
        "{} holds weights of a network {}: expected a language model's, as accrue train --save "
        "writes them",
        request.init, request.model_name);
  return *text;
}

}  // namespace accrue
