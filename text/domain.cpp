#include "text/domain.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "data/safetensors.h"
#include "job/request.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/segment_mean.h"
#include "text/base.h"
#include "text/grammar.h"
#include "text/language_model.h"
#include "text/language_modeling.h"
#include "text/prepare.h"
#include "text/text_files.h"
#include "text/text_pairs.h"
#include "text/tokenizers.h"

namespace accrue {
namespace {

template <class Options>
std::vector<std::string> names_of() {
  std::vector<std::string> names = text_model_names();
  std::erase_if(names, [](const std::string& name) {
    return !std::holds_alternative<Options>(text_model(name));
  });
  return names;
}

Settings settings_of_rows(RowOptions& o) {
  const ActsWith with_text{{"model", text_model_names()}};
  Settings s;
  s.group("Model and data")
      .add(o.context, {.name = "context",
                       .decides = Decides::result,
                       .help = "Tokens in a row, which is a sample of a text",
                       .range = {1, 1 << 24},
                       .acts_with = with_text,
                       .saved = Saved::with_scores,
                       .acts_in = ActsIn::samples})
      .add(o.documents, document_rows_names(),
           {.name = "documents",
            .decides = Decides::result,
            .help = "Rows of a text: packed: several documents in one, none of which sees another; "
                    "padded: one in each; stream: all as one text, cut",
            .acts_with = with_text,
            .saved = Saved::with_scores,
            .data = "a corpus of single texts",
            .acts_in = ActsIn::samples})
      .add(o.long_answers, long_answers_names(),
           {.name = "long",
            .decides = Decides::result,
            .help = "Answers of chats and completions that end beyond the row in which their "
                    "document begins: left out, or learned as far as that row goes",
            .acts_with = {{"model", text_model_names()}, {"documents", {"packed", "padded"}}},
            .saved = Saved::with_scores,
            .data = "a corpus with prompts or chats",
            .acts_in = ActsIn::samples});
  return s;
}

Settings settings_of_pairs(std::optional<double>& scale, Duplicates& duplicates) {
  static const std::map<std::string, Duplicates> names{{"negatives", Duplicates::negatives},
                                                       {"ignore", Duplicates::ignore}};
  Settings s;
  s.group("Language models")
      .add(scale, {.name = "similarity-scale",
                   .decides = Decides::result,
                   .help = "Of pairs of texts: products of their unit vectors are multiplied by it",
                   .unset = "20",
                   .range = above_zero,
                   .acts_with = {{"model", text_model_names()}},
                   .saved = Saved::with_scores,
                   .data = "a corpus of anchors and positives",
                   .costs = Costs::nothing})
      .add(duplicates, names,
           {.name = "duplicates",
            .decides = Decides::result,
            .help = "Equal texts of several pairs in a window: each other's negatives, or ignored, "
                    "so that each text stands once among those that anchors are compared with",
            .acts_with = {{"model", text_model_names()}},
            .saved = Saved::with_scores,
            .data = "a corpus of anchors and positives"});
  return s;
}

Settings settings_of_preferences(PreferenceOptions& o) {
  static const std::map<std::string, bool> yes_or_no{{"yes", true}, {"no", false}};
  const auto about = [](std::string name, std::string help) {
    return SettingFacts{.name = std::move(name),
                        .decides = Decides::result,
                        .help = std::move(help),
                        .acts_with = {{"model", text_model_names()}},
                        .saved = Saved::with_scores,
                        .data = "a corpus of prompts with chosen and rejected answers"};
  };
  SettingFacts beta =
      about("dpo-beta", "Of preferences (DPO): how near the model stays to its base");
  beta.range = above_zero;
  Settings s;
  s.group("Language models")
      .add(o.beta, std::move(beta))
      .add(o.normalized, yes_or_no,
           about("dpo-normalized",
                 "An answer's log probability is the mean over its tokens, not their sum"));
  return s;
}

Settings settings_of_base(std::string& base, std::optional<int>& bits) {
  static const std::map<std::string, int> numbers_of_bits{{"4", 4}, {"8", 8}, {"16", 16}};
  const ActsWith with_text{{"model", text_model_names()}};
  Settings s;
  s.group("Language models")
      .add(base, {.name = "base",
                  .decides = Decides::content,  // Text::identity()
                  .help = "Take the model and its weights from there: they are fixed, beside "
                          "adapters (--lora), and a GGUF file's stay in its 4, 8 or 16 bits",
                  .takes = reads("FILE.gguf|FILE.safetensors"),
                  .acts_with = with_text,
                  .saved = Saved::with_weights})
      .add(bits, numbers_of_bits,
           {.name = "base-bits",
            .decides = Decides::result,
            .help = "Quantize the matrices of --base FILE.safetensors: to Q4_0, Q8_0 or bf16",
            .unset = "as in the file",
            .needs = "base",
            .acts_with = with_text,
            .saved = Saved::with_weights});
  return s;
}

Settings settings_of_sizes(TextModelSizes& o) {
  // A base says its own sizes.
  const ActsWith::Condition no_base{"base", {""}};
  const ActsWith with_text{{"model", text_model_names()}, no_base},
      with_llama{{"model", names_of<LlamaOptions>()}, no_base};
  static const std::map<std::string, bool> yes_or_no{{"yes", true}, {"no", false}};
  const auto about = [](std::string name, std::string help, auto with) {
    return SettingFacts{.name = std::move(name),
                        .decides = Decides::result,
                        .help = std::move(help),
                        .unset = "the model's",
                        .acts_with = std::move(with),
                        .saved = Saved::with_weights};
  };
  const auto count = [&](std::string name, std::string help, auto with) {
    SettingFacts all = about(std::move(name), std::move(help), std::move(with));
    all.range = {.low = 1};
    return all;
  };
  const auto number = [&](std::string name, std::string help) {
    SettingFacts all = about(std::move(name), std::move(help), with_llama);
    all.range = above_zero;
    return all;
  };
  SettingFacts scaling =
      about("rotary-scaling", "How rotations are slowed down, for longer texts", with_llama);
  scaling.takes = "linear:FACTOR|llama3:FACTOR:LOW:HIGH:CONTEXT|none";
  Settings s;
  s.group("Language models")
      .add(o.layers, count("layers", "Blocks of attention and two linear layers", with_text))
      .add(o.heads, count("heads", "Heads of attention", with_text))
      .add(o.width, count("hidden-size", "Channels of a token between the blocks", with_text))
      .add(o.positions,
           count("positions",
                 "Tokens of the texts that it is made for, at least --context: a GPT has an "
                 "embedding of each place",
                 with_text))
      .add(o.groups, count("groups", "Groups of heads that share keys and values", with_llama))
      .add(o.hidden, count("feed-forward-size", "Channels within the linear layers", with_llama))
      .add(o.head_size,
           count("head-size", "Channels of a head, if not hidden-size / heads", with_llama))
      .add(o.norm_eps, number("norm-eps", "Added to the mean square in norms"))
      .add(o.rotary_base, number("rotary-base", "Base of the rotations' frequencies"))
      .add(o.rotary_scaling, std::move(scaling))
      .add(o.is_tied, yes_or_no, about("tied-head", "The head is the embedding", with_text))
      .add(o.has_bias, yes_or_no,
           about("attention-bias", "Queries, keys and values have a bias", with_llama));
  return s;
}

Settings settings_of_lora(LoraOptions& o) {
  static const std::map<std::string, bool> yes_or_no{{"yes", true}, {"no", false}};
  const auto about = [](std::string name, std::string help, std::string unset) {
    return SettingFacts{.name = std::move(name),
                        .decides = Decides::result,
                        .help = std::move(help),
                        .unset = std::move(unset),
                        .needs = "lora",
                        .acts_with = {{"model", text_model_names()}},
                        .saved = Saved::with_weights};
  };
  SettingFacts rank =
      about("lora", "Train adapters of this rank beside fixed weights, those of --init",
            "all is trained");
  rank.needs.clear();
  rank.range = {.low = 1, .high = 1 << 16};
  SettingFacts alpha = about("lora-alpha", "Adapters count alpha / rank", "2 * rank");
  alpha.range = above_zero;
  SettingFacts dropout = about("lora-dropout", "Dropout of what adapters read", "0");
  dropout.range = {0, 0.999};
  SettingFacts targets =
      about("lora-targets",
            "Linear layers that have adapters, such as q_proj, attn.c_proj; all: those "
            "of the blocks",
            "q_proj,v_proj; of GPT-2 c_attn");
  targets.takes = "NAME,...|all";
  Settings s;
  s.group("Language models")
      .add(o.rank, std::move(rank))
      .add(o.alpha, std::move(alpha))
      .add(o.dropout, std::move(dropout))
      .add(o.rank_stabilized, yes_or_no,
           about("lora-rs", "Adapters count alpha / sqrt(rank) instead, if yes", ""))
      .add(o.targets, std::move(targets));
  return s;
}

bool is_embedding_of_tokens(const std::string& name) {
  return name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight");
}

bool is_embedding_of_positions(const std::string& name) { return name.ends_with("wpe.weight"); }

// The rows of the tensor that is meant, if a file has it.
std::optional<int64_t> rows_in(const std::string& weights, const TensorFilter& wanted) {
  const SafetensorsHeader header = read_safetensors_header(weights, wanted);
  if (header.entries.empty()) return std::nullopt;
  return header.entries.front().shape[0];
}

std::optional<int64_t> vocabulary_in(const std::string& weights) {
  return rows_in(weights, is_embedding_of_tokens);
}

// How long the texts are that the weights in a file were made for, or learned from: as many tokens
// as a GPT has an embedding for; of a Llama what is said of it, or else the longer one of its
// name's and of the rows that it has seen.
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

// The tokens of a row; at least 1, where weights do not say for how many they are.
int64_t tokens_of(const SampleSpec& rows) {
  const Shape& row = rows.input().shape;
  return row.rank() > 0 ? row[0] : 1;
}

// True for texts that become tokens as they are read.
bool is_of_texts(const std::string& data) {
  return !holds_corpus(data) && (holds_json_lines(data) || holds_texts(data));
}

constexpr const char *base_checksum_name = "base-checksum", *title_name = "model-name";
// What the states of a text's tokens are made into.
constexpr const char *embeddings_name = "embeddings", *embeddings_of_pairs = "mean, norm 1";

// The files of a model from elsewhere, which its weights carry on. Nobody else names a file that
// will be written.
void take_files(const Metadata& said, Metadata& files) {
  for (const char* const name : {"config.json", "generation_config.json", gguf_general_name})
    if (const auto found = said.find(name); found != said.end()) files[name] = found->second;
}

// What a file that accrue wrote says of its model.
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

Settings Text::settings(TrainingOptions& o) {
  Settings s;
  s.append(settings_of_rows(rows)).append(settings_of_sizes(sizes));
  s.append(settings_of_base(base, base_bits)).append(settings_of_lora(lora));
  s.append(settings_of_pairs(similarity_scale, duplicates));
  s.append(settings_of_preferences(of_preferences));
  s.append(
      settings_of_lines(chat, fields, {{"model", text_model_names()}}, "a file of JSON lines"));
  s.group("Model and data")
      .add(tokenizer,
           {.name = "tokenizer",
            .decides = Decides::no_result,  // the tokens identify the data
            .help = "Of texts that no corpus has been made of: bytes, a tokenizer.json or a "
                    "directory with a tokenizer",
            .takes = reads("FILE|DIR"),
            .unset = "the model's, or bytes",
            .acts_with = {{"model", text_model_names()}},
            .data = "a file of JSON lines or texts",
            .acts_in = ActsIn::samples})
      .add(control, control_in_texts_names(),
           {.name = "text-may-contain-control",
            .decides = Decides::result,
            .help = "Of texts that no corpus has been made of: whether control tokens, such as "
                    "<|endoftext|>, are made where a text or a message spells them",
            .acts_with = {{"model", text_model_names()}},
            .saved = Saved::with_scores,
            .data = "a file of JSON lines or texts",
            .acts_in = ActsIn::samples});
  s.group("Batches").add(
      o.batches.piece,
      {.name = "sequence-piece",
       .decides = Decides::no_result,
       .help = "Tokens of a row that are computed at a time, for a row that does not fit: its "
               "pieces share keys and values, and each is computed twice; 0: whole rows",
       .range = {0, 1 << 24},
       .acts_with = {{"model", text_model_names()}},
       .acts_in = ActsIn::scores});
  s.group("Output").add(sample_prompt, {.name = "sample-prompt",
                                        .decides = Decides::no_result,
                                        .help = "The beginning of what --sample-every writes",
                                        .takes = "TEXT",
                                        .unset = "that of a held-out document",
                                        .needs = "sample-every",
                                        .acts_with = {{"model", text_model_names()}},
                                        .costs = Costs::nothing});
  return s;
}

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

Example Text::example(const Layer& network, const SampleSpec& sample) const {
  check(base.empty(),
        "an ONNX file has numbers in float32, but the weights of the base '{}' stay as they are "
        "stored: expected merged ones (accrue text merge)",
        base);
  const LanguageModel& model = LanguageModel::of(network);
  // Sizes that no other is equal to.
  const int64_t N = 2, E = model.head().size(1), most = tokens_of(sample),
                T = std::min<int64_t>(E == 3 ? 4 : 3, most);
  const Tensor tokens = Tensor::from(std::vector<int32_t>(size_t(N * T)), {N, T});
  const Tensor positions = positions_of(tokens);
  if (embeds()) {
    const Tensor lengths = Tensor::from(std::vector<int32_t>(size_t(N), 1), {N});
    const Tensor gamma = Tensor::full({E}, 1 / std::sqrt(double(E)), DType::f32, Device::cpu);
    return {.inputs = {{sample.input().name, tokens}, {"lengths", lengths}},
            .free_sizes = {"batch", "tokens"},
            .answer_name = "embeddings",
            // embed(), whose constant lies where nothing that is computed has lain.
            .answer =
                [=, &model] {
                  const Tensor means = segment_mean(model.states({tokens, positions}, Pass::eval()),
                                                    lengths.reshape({N, 1}));
                  return rms_norm(means.reshape({N, E}), gamma, 1e-24);
                },
            .free_sizes_of_answer = 1,
            .positions = positions,
            .most_positions = most};
  }
  return {
      .inputs = {{sample.input().name, tokens}},
      .free_sizes = {"batch", "tokens"},
      .answer_name = "logits",
      .answer =
          [&model, tokens, positions] {
            const Tensor x = model.states({tokens, positions}, Pass::eval());
            const Tensor logits = linear(x.reshape({tokens.numel(), x.size(2)}), model.head(), {});
            return logits.reshape({tokens.size(0), tokens.size(1), logits.size(1)});
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
  // Where they were trained, or else beside the adapters.
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

// The base is what it holds, wherever it lies.
Metadata Text::identity() const {
  if (base.empty()) return {};
  return {{"base", open_base()->checksum()}};
}

std::vector<std::string> Text::warnings(const std::string& model, const Dataset& data) const {
  const BasePtr opened = base.empty() ? nullptr : open_base();
  std::vector<std::string> all = opened ? opened->model().warnings : std::vector<std::string>{};
  for (const std::string& each : prepared_.left_alone) all.push_back("left alone: " + each);
  for (const std::string& each : prepared_.warnings) all.push_back(each);
  if (answers_.longer > 0) all.push_back(said_of(answers_));
  const int64_t texts = data.has("lengths")   ? data.field("lengths").values.size(1)
                        : data.has("answers") ? 2
                                              : 1;
  const int64_t T = data.field("tokens").values.size(1) / texts;
  const bool is_limited = std::holds_alternative<Gpt2Options>(text_model(model));
  if (const auto context = context_of_weights(opened); context && T > *context && !is_limited)
    all.push_back(fmt::format(
        "rows of {} tokens, but the model of {} is made for {}: what is beyond is new to it", T,
        opened ? base : weights_.file, *context));
  if (opened && !model_tokenizer().place.empty() && !model_tokenizer().is_known())
    all.push_back(fmt::format(
        "the tokenizer in {} is of a kind that cannot be read: whether the data is of it is not "
        "checked",
        base));
  if (duplicates == Duplicates::ignore || !data.has("texts")) return all;
  if (const int64_t equal = samples_with_equal_positives(data); equal > 0)
    all.push_back(fmt::format(
        "{} of {} samples have a positive that is the positive of others, or a negative, too, and "
        "where they meet it counts as a negative: expected a training with --duplicates ignore, "
        "or each text once",
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
      {"perplexity", "exp(loss): that of a guess among so many tokens that are equally likely."},
      {"tokens", "Tokens that count."},
      {"recall@1",
       "Percentage of held-out anchors to which no text is nearer than their positive."},
      {"reward_accuracy",
       "Percentage of held-out pairs whose chosen answer has become likelier than the rejected "
       "one, "
       "beside the base."},
      {"reward_margin", "By how much, beta times the difference of the log probabilities."},
      {"sample", "What the model writes after a prompt."}};
}

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
  if (data == "grammar") return grammar_corpora();
  check(table_because(data).empty(), "'{}' is {}", data, table_because(data));
  if (!is_of_texts(data)) return open_corpora(data);
  // Lines of JSON are bytes where nothing else is said, as they were before.
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
  return {prepared_.corpus, nullptr};
}

Datasets Text::load(const DataRequest& request) const {
  const Corpora read = corpora(request.data);
  // What a tokenizer made says by itself which one does not fit.
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
          "the tokens are those of the tokenizer '{}' (checksum {}), but {} learned by {} "
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

// Corpora of before say no checksum.
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

const Text& text_of(const Request& request) {
  const Text* const text = request.domains.of_model_as<Text>(request.model_name);
  check(text != nullptr,
        "{} holds weights of a network {}: expected a language model's, as accrue train --save "
        "writes them",
        request.init, request.model_name);
  return *text;
}

}  // namespace accrue
