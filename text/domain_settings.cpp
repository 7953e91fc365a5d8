// The settings of text.

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/domain.h"
#include "text/prepare.h"

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
            .help = "Documents per row: packed: several, which do not see each other; padded: one; "
                    "stream: all documents as one text, cut into rows",
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
                   .help = "The loss of pairs of texts multiplies their cosine similarities by it",
                   .unset = "20",
                   .range = above_zero,
                   .acts_with = {{"model", text_model_names()}},
                   .saved = Saved::with_scores,
                   .data = "a corpus of anchors and positives",
                   .costs = Costs::nothing})
      .add(duplicates, names,
           {.name = "duplicates",
            .decides = Decides::result,
            .help = "Equal texts of several pairs in a window: each other's negatives, or ignored: "
                    "anchors "
                    "are compared with each text only once",
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
  SettingFacts beta = about("dpo-beta", "How near preferences (DPO) keep the model to its base");
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
                  .help = "Take the model and its weights from this file. They are fixed, for "
                          "adapters (--lora); "
                          "weights in a GGUF file keep their 4, 8 or 16 bits",
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
  SettingFacts rank = about("lora", "Train adapters of this rank; the weights of --init are fixed",
                            "all is trained");
  rank.needs.clear();
  rank.range = {.low = 1, .high = 1 << 16};
  SettingFacts alpha =
      about("lora-alpha", "Multiply the output of adapters by alpha / rank", "2 * rank");
  alpha.range = above_zero;
  SettingFacts dropout = about("lora-dropout", "Dropout of the adapters' inputs", "0");
  dropout.range = {0, 0.999};
  SettingFacts targets = about("lora-targets",
                               "Linear layers that get adapters, such as q_proj, attn.c_proj; all: "
                               "every one in the blocks",
                               "q_proj,v_proj; of GPT-2 c_attn");
  targets.takes = "NAME,...|all";
  Settings s;
  s.group("Language models")
      .add(o.rank, std::move(rank))
      .add(o.alpha, std::move(alpha))
      .add(o.dropout, std::move(dropout))
      .add(o.rank_stabilized, yes_or_no,
           about("lora-rs", "If yes, multiply it by alpha / sqrt(rank) instead", ""))
      .add(o.targets, std::move(targets));
  return s;
}

}  // namespace

Settings detail::settings_of_sizes(TextModelSizes& o) {
  // A base has its own sizes.
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
                 "Longest text that the model is made for, in tokens, at least --context; "
                 "a GPT has an embedding for each position",
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
            .help =
                "The tokenizer for texts that are not a corpus yet: bytes, a tokenizer.json or a "
                "directory with a tokenizer",
            .takes = reads("FILE|DIR"),
            .unset = "the model's, or bytes",
            .acts_with = {{"model", text_model_names()}},
            .data = "a file of JSON lines or texts",
            .acts_in = ActsIn::samples})
      .add(control, control_in_texts_names(),
           {.name = "text-may-contain-control",
            .decides = Decides::result,
            .help =
                "Whether texts and messages that spell control tokens, such as <|endoftext|>, get "
                "these tokens, if the texts are not a corpus yet",
            .acts_with = {{"model", text_model_names()}},
            .saved = Saved::with_scores,
            .data = "a file of JSON lines or texts",
            .acts_in = ActsIn::samples});
  s.group("Batches").add(
      o.batches.piece,
      {.name = "sequence-piece",
       .decides = Decides::no_result,
       .help = "Compute rows in pieces of this many tokens, for rows that do not fit in memory: "
               "pieces share keys and values, and each is computed twice; 0: whole rows",
       .range = {0, 1 << 24},
       .acts_with = {{"model", text_model_names()}},
       .acts_in = ActsIn::scores});
  s.group("Output").add(sample_prompt,
                        {.name = "sample-prompt",
                         .decides = Decides::no_result,
                         .help = "The beginning of the texts that --sample-every writes",
                         .takes = "TEXT",
                         .unset = "that of a held-out document",
                         .needs = "sample-every",
                         .acts_with = {{"model", text_model_names()}},
                         .costs = Costs::nothing});
  return s;
}

}  // namespace accrue
