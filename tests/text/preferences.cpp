// Preferences: DPO compared with its definition on logits in float64, and users' files.

#include "text/preferences.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/golden_window.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_ranks.h"
#include "text/models.h"
#include "text/prepare.h"
#include "text/rows.h"
#include "train/game.h"

namespace accrue::test {
namespace preferences_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t pairs = 6, row = 14, half = row / 2, V = 11;

// A network whose adapters are not 0.
struct Learner {
  explicit Learner(bool is_gpt2, double dropout = 0,
                   const LoraOptions& lora = {.rank = 2, .targets = {"all"}})
      : model(make_text_model(network(is_gpt2, dropout), lora)),
        parameters(place(*model, DType::f64, test_device(), 3)) {
    uint64_t stream = 0;
    for (const auto& entry : parameters.entries()) {
      RandomStream random(++stream);
      Values values(size_t(entry.tensor.numel()));
      for (double& v : values) v = random.uniform(-0.5f, 0.5f);
      entry.tensor.copy_from(Tensor::from(values, entry.tensor.shape(), test_device()));
    }
  }
  static TextModelOptions network(bool is_gpt2, double dropout) {
    if (is_gpt2)
      return Gpt2Options{.vocabulary = V,
                         .context = half,
                         .width = 8,
                         .layers = 2,
                         .heads = 2,
                         .dropout = dropout};
    return LlamaOptions{
        .vocabulary = V, .width = 8, .hidden = 12, .layers = 2, .heads = 2, .groups = 1};
  }
  std::unique_ptr<LanguageModel> model;
  Parameters parameters;
};

// Texts of 3 to 7 tokens, one after the other. The last tokens of each are the answer.
Samples samples_of_pairs() {
  RandomStream random(9);
  std::vector<int32_t> tokens(pairs * row), positions(pairs * row), answers(pairs * row, -1);
  for (size_t text = 0; text < 2 * pairs; ++text) {
    const size_t length = 3 + text % 5, prompt = 1 + text % 2;
    for (size_t t = 0; t < length; ++t) {
      const size_t at = text * half + t;
      tokens[at] = int32_t(random.uniform(0, float(V) - 1e-3f));
      positions[at] = int32_t(t);
      if (t >= prompt) answers[at] = int32_t(random.uniform(0, float(V) - 1e-3f));
    }
  }
  const auto field = [](const char* name, const std::vector<int32_t>& values) {
    return Samples::Field{name, Tensor::from(values, {pairs, row}, test_device())};
  };
  return {{field("tokens", tokens), field("positions", positions), field("answers", answers)}};
}

// For each text, the sum of its answer's log probabilities, and the number of the answer's tokens.
std::vector<std::pair<double, double>> log_probabilities(const LanguageModel& model,
                                                         const Samples& samples,
                                                         Adapters adapters) {
  const NoGrad no_grad;
  Pass pass = Pass::eval();
  pass.adapters = adapters;
  const Values logits =
      to_doubles(model.forward(samples["tokens"].reshape({2 * pairs, half}), pass));
  const Tensor labels = samples["answers"].to(Device::cpu);
  std::vector<std::pair<double, double>> found(2 * pairs);
  for (size_t i = 0; i < 2 * pairs * half; ++i) {
    const int32_t label = labels.span<int32_t>()[i];
    if (label == not_judged) continue;
    double sum = 0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(logits[i * V + v]);
    found[i / half].first += logits[i * V + size_t(label)] - std::log(sum);
    found[i / half].second += 1;
  }
  return found;
}

// The margins, computed by the definition.
Values margins_of(const LanguageModel& model, const Samples& samples,
                  const PreferenceOptions& options) {
  const auto p = log_probabilities(model, samples, Adapters::count),
             q = log_probabilities(model, samples, Adapters::left_out);
  Values margins;
  for (size_t n = 0; n < pairs; ++n) {
    const auto reward = [&](size_t text) {
      const double ratio = p[text].first - q[text].first;
      return options.beta * (options.normalized ? ratio / p[text].second : ratio);
    };
    margins.push_back(reward(2 * n) - reward(2 * n + 1));
  }
  return margins;
}

double loss_of(const Values& margins) {
  double loss = 0;
  for (const double m : margins) loss += std::log1p(std::exp(-m)) / double(margins.size());
  return loss;
}

// A step over all pairs in these micro-batches.
WindowOutcome step_of(Learner& learner, const MicroBatchSizes& split, const Pass& pass = {},
                      const PreferenceOptions& options = {}, Ranks* ranks = nullptr) {
  const auto optimizer = sgd(learner.parameters, {});
  Window window(*optimizer, ScheduleOptions{.base = 0.1},
                {.effective_batch_size = pairs, .ranks = ranks});
  const ObjectivePtr objective = preferences(options);
  Player player{.name = "", .window = window};
  player.loss = [&](const Samples& samples, const Pass& own) {
    return objective->loss(objective->answer(*learner.model, samples, own), samples);
  };
  const auto parts = share_of(ranks, micro_batches_of(samples_of_pairs(), split));
  Game game({player});
  game.play(window_of(parts), pass);
  WindowOutcome outcome;
  outcome.add_step(window);
  outcome.set_weights(learner.parameters);
  return outcome;
}

WindowOutcome step_of(bool is_gpt2, const MicroBatchSizes& split, const Pass& pass = {},
                      const PreferenceOptions& options = {}, Ranks* ranks = nullptr) {
  Learner learner(is_gpt2);
  return step_of(learner, split, pass, options, ranks);
}

}  // namespace

// The definition has sums of about 1000 terms around 10. Their differences are of the fourth order,
// so they are off by step^4 times a fifth derivative of less than 1e8, and by 1e-14 / step.
TEST_CASE("preferences are DPO by its definition", "[text]") {
  constexpr double step = 5e-5;
  const Samples samples = samples_of_pairs();
  for (const bool is_gpt2 : {true, false})
    for (const PreferenceOptions& options : {PreferenceOptions{}, PreferenceOptions{2, true}}) {
      INFO((is_gpt2 ? "gpt2, beta " : "llama, beta ") << options.beta);
      Learner learner(is_gpt2);
      const Values expected = margins_of(*learner.model, samples, options);
      {
        const NoGrad no_grad;
        const ObjectivePtr objective = preferences(options);
        const Tensor margins = objective->answer(*learner.model, samples, Pass::eval());
        REQUIRE(largest_difference(to_doubles(margins), expected) < 1e-12);
        const Tensor sums = Tensor::full({3}, 0, DType::f64, test_device());
        objective->add_score(sums, margins, samples);
        const Values found = to_doubles(sums);
        REQUIRE(std::abs(found[0] / pairs - loss_of(expected)) < 1e-12);
        REQUIRE(found[1] ==
                double(std::ranges::count_if(expected, [](double m) { return m > 0; })));
        REQUIRE((found[1] > 0 && found[1] < pairs));
      }
      // Some elements of each adapter.
      std::map<std::string, std::vector<std::pair<size_t, double>>> differences;
      for (const auto& entry : learner.parameters.entries()) {
        Values values = to_doubles(entry.tensor);
        const auto loss_with = [&](size_t i, double by) {
          values[i] += by;
          entry.tensor.copy_from(Tensor::from(values, entry.tensor.shape(), test_device()));
          values[i] -= by;
          return loss_of(margins_of(*learner.model, samples, options));
        };
        for (size_t i = 0; i < values.size(); i += 13) {
          const double near = loss_with(i, step) - loss_with(i, -step),
                       far = loss_with(i, 2 * step) - loss_with(i, -2 * step);
          differences[entry.name].emplace_back(i, (8 * near - far) / (12 * step));
        }
        loss_with(0, 0);
      }
      const WindowOutcome outcome = step_of(learner, {4, 2}, {}, options);
      REQUIRE(std::abs(outcome.losses[0] - loss_of(expected)) < 1e-12);
      double most = 0;
      for (const auto& [name, some] : differences)
        for (const auto& [i, slope] : some) {
          REQUIRE(std::abs(outcome.gradients.at(name)[i] - slope) < 1e-8);
          most = std::max(most, std::abs(slope));
        }
      REQUIRE(most > 1e-4);
    }
}

TEST_CASE("a window of preferences is the mean over its pairs, for every split", "[text][window]") {
  for (const bool is_gpt2 : {true, false}) {
    const WindowOutcome whole = step_of(is_gpt2, {pairs});
    const auto is_same = [&](const WindowOutcome& one) { return difference(one, whole) < 1e-13; };
    // Where tests are reduced(), each split and each piece is taken by one of the networks.
    for (const MicroBatchSizes& split :
         {MicroBatchSizes{3, 3}, MicroBatchSizes{1, 3, 2}, MicroBatchSizes(pairs, 1)})
      if (!reduced() || is_gpt2 == (split.size() == 3)) REQUIRE(is_same(step_of(is_gpt2, split)));
    if (!reduced() || is_gpt2)
      REQUIRE(is_same(step_of(is_gpt2, {4, 2}, {.recompute = Recompute::all})));
    for (const int64_t piece : {1, 2, 3, 6})
      if (!reduced() || is_gpt2 == (piece == 2 || piece == 3))
        REQUIRE(is_same(step_of(is_gpt2, {4, 2}, {.piece = piece})));
    if (reduced() && is_gpt2) continue;
    std::vector<WindowOutcome> found(2);
    run_ranks(2, [&](Ranks& ranks) {
      found[size_t(ranks.rank())] = step_of(is_gpt2, {3, 2, 1}, {}, {}, &ranks);
    });
    for (const WindowOutcome& one : found) REQUIRE(is_same(one));
    // A mistake changes the result by more than the bound.
    REQUIRE(difference(step_of(is_gpt2, {pairs}, {}, {.beta = 0.11}), whole) > 1e-4);
  }
}

TEST_CASE("the reference of preferences has no dropout", "[text]") {
  const Samples samples = samples_of_pairs();
  const auto margins = [&](const LoraOptions& lora, bool zero) {
    Learner learner(true, 0.3, lora);
    if (zero)
      for (const auto& entry : learner.parameters.entries()) entry.tensor.fill(0);
    const NoGrad no_grad;
    Pass pass{.seed = 4};
    pass.samples = Tensor::from(std::vector<int32_t>{5, 1, 3, 0, 2, 4}, {pairs}, test_device());
    return to_doubles(preferences()->answer(*learner.model, samples, pass));
  };
  const LoraOptions plain{.rank = 2, .targets = {"all"}}, dropped{.rank = 2, .dropout = 0.5};
  // If the adapters are 0, only dropout makes a difference.
  for (const double m : margins(plain, true)) REQUIRE(std::abs(m) > 1e-6);
  REQUIRE(margins(dropped, false) == margins(dropped, false));
  REQUIRE(largest_difference(margins(plain, false), margins(dropped, false)) > 1e-6);
}

TEST_CASE("preferences are refused without adapters and for rows of no two halves", "[text]") {
  const auto answer = [&](const Learner& learner, const Samples& samples) {
    return preferences()->answer(*learner.model, samples, {});
  };
  Samples samples = samples_of_pairs();
  REQUIRE_ERROR(answer(Learner(true, 0, {}), samples), "expected adapters (LoRA)");
  for (auto& field : samples.fields) field.values = field.values.reshape({4, 21});
  REQUIRE_ERROR(answer(Learner(false), samples), "rows of 21 tokens");
  REQUIRE_ERROR(preferences({.beta = 0}), "expected a number above 0");
}

namespace {

PreparedText prepared(const TemporaryDirectory& folder, const std::string& lines) {
  const fs::path file = folder.path() / "preferences.jsonl";
  std::ofstream(file) << lines;
  return prepare_text({.texts = {file.string()}, .hold_out = 0.4});
}

// The documents as text, with the learned parts between [ and ] and the end of the text as $.
std::vector<std::string> documents_of(const Corpus& corpus) {
  std::vector<std::string> all;
  int64_t begin = 0;
  for (const uint64_t end : corpus.documents().ends) {
    std::vector<int32_t> tokens(end - uint64_t(begin));
    corpus.read(tokens, begin);
    std::string text;
    bool was_learned = false;
    for (const int32_t token : tokens) {
      const bool is_learned = corpus.is_learned(begin++);
      if (is_learned != std::exchange(was_learned, is_learned)) text += is_learned ? '[' : ']';
      text += token == 256 ? '$' : char(token);
    }
    all.push_back(text + (was_learned ? "]" : ""));
  }
  return all;
}

}  // namespace

TEST_CASE("preferences come as prompts, chosen and rejected, in TRL's forms", "[text]") {
  const TemporaryDirectory folder;
  const auto becomes = [&](const std::string& line, const std::vector<std::string>& expected) {
    INFO(line);
    const PreparedText made = prepared(folder, line);
    REQUIRE(made.corpus->facts().has_preferences);
    REQUIRE(made.corpus->facts().texts_of_sample == 2);
    REQUIRE(documents_of(*made.corpus) == expected);
  };
  becomes(R"({"prompt": "Sky?", "chosen": " blue", "rejected": " green"})",
          {"Sky?[ blue$]", "Sky?[ green$]"});
  // Without a prompt field, the prompt is the common beginning of both answers, without a space at
  // its end and without a part of a character.
  becomes(R"({"chosen": "The sky is blue.", "rejected": "The sky is green"})",
          {"The sky is[ blue.$]", "The sky is[ green$]"});
  becomes("{\"chosen\": \"a\xc3\xa9\", \"rejected\": \"a\xc3\xa8\"}",
          {"a[\xc3\xa9$]", "a[\xc3\xa8$]"});
  const auto message = [](const std::string& role, const std::string& content) {
    return fmt::format(R"({{"role": "{}", "content": "{}"}})", role, content);
  };
  const std::string asks = message("user", "Sky?"), blue = message("assistant", "Blue"),
                    green = message("assistant", "Green");
  const std::string begin = "<|im_start|>user\nSky?<|im_end|>\n<|im_start|>assistant\n";
  const std::vector<std::string> chats{begin + "[Blue<|im_end|>]\n", begin + "[Green<|im_end|>]\n"};
  const auto record = [](const std::string& prompt, const std::string& chosen,
                         const std::string& rejected) {
    return "{" + (prompt.empty() ? "" : "\"prompt\": " + prompt + ", ") + "\"chosen\": " + chosen +
           ", \"rejected\": " + rejected + "}";
  };
  const auto list = [](const std::string& messages) { return "[" + messages + "]"; };
  becomes(record(list(asks), list(blue), list(green)), chats);
  becomes(record(list(asks), "\"Blue\"", "\"Green\""), chats);
  becomes(record(list(asks), blue, green), chats);
  becomes(record("", list(asks + ", " + blue), list(asks + ", " + green)), chats);
  becomes(record("\"Sky?\"", list(asks + ", " + blue), list(asks + ", " + green)), chats);
  const auto gpt = [](const char* value) {
    return fmt::format(R"({{"from": "gpt", "value": "{}"}})", value);
  };
  becomes(record(R"([{"from": "human", "value": "Sky?"}])", gpt("Blue"), gpt("Green")), chats);
  // An earlier answer in the prompt is not learned.
  const std::string more = list(asks + ", " + blue + ", " + message("user", "Sure?"));
  becomes(record(more, "\"Yes\"", "\"No\""),
          {begin + "Blue<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"
                   "[Yes<|im_end|>]\n",
           begin + "Blue<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"
                   "[No<|im_end|>]\n"});

  const auto refused = [&](const std::string& line, const char* why) {
    INFO(line);
    REQUIRE_ERROR(prepared(folder, line), why);
  };
  refused(record("", "\"a\"", "\"b\""),
          "line 1: chosen and rejected begin differently: expected a");
  refused(record("", "\"a b\"", "\"a\""), "are each other's beginning");
  refused(record("\"\"", "\"a\"", "\"b\""), "prompt is empty");
  refused(record("\"Sea?\"", list(asks + ", " + blue), list(asks + ", " + green)),
          "do not begin with a message that is the prompt");
  refused(record(list(asks), list(blue), "\"Green\""), "expected both alike");
  refused(record("1", "\"a\"", "\"b\""), "prompt is 1, expected text or a list");
  refused(record("\"a\"", "1", "\"b\""), "chosen is 1, expected text or a list");
  refused(record("\"a\"", "\"\"", "\"b\"") + "\n{\"anchor\": \"a\", \"positive\": \"b\"}",
          "line 2 has no chosen and rejected answers, but the lines before it have");
  refused(R"({"prompt": "a", "completion": "b", "label": false})", "label is false beside prompt");
  refused(R"({"prompt": "a", "completion": "b", "chosen": "c", "rejected": "d"})",
          "expected an object with text");
}

TEST_CASE("rows of preferences begin their second text in the middle", "[text]") {
  const TemporaryDirectory folder;
  std::string lines;
  for (int i = 0; i < 40; ++i)  // each prompt comes twice
    lines += fmt::format(R"({{"prompt": "{}?", "chosen": "{}", "rejected": "n{}"}})"
                         "\n",
                         char('a' + i / 2), std::string(size_t(i % 4), 'y'), i % 2);
  const CorpusPtr corpus = prepared(folder, lines).corpus;
  // 2 + 3 + 1 tokens; the last one is only a label.
  for (const auto& [context, left_out] : {std::pair{10, 0}, {8, 10}}) {
    const auto [train, test] = rows_of({corpus, nullptr}, {.context = context});
    REQUIRE(train.size() + test.size() == 40 - left_out);
    REQUIRE(test.size() > 5);
    REQUIRE((left_out == 0 || train.about.find("left out that have a text of more than 4 tokens") !=
                                  std::string::npos));
    std::map<int32_t, bool> is_held_out;
    for (const Dataset* data : {&train, &test}) {
      const Samples all = gather(*data, 0, data->size());
      const auto tokens = all["tokens"].span<int32_t>(), places = all["positions"].span<int32_t>(),
                 answers = all["answers"].span<int32_t>();
      for (size_t text = 0; text < size_t(2 * data->size()); ++text) {
        const size_t at = text * size_t(context) / 2;
        const bool is_chosen = text % 2 == 0;
        const auto [seen, is_new] = is_held_out.emplace(tokens[at], data == &test);
        REQUIRE(seen->second == (data == &test));
        REQUIRE(tokens[at + 1] == '?');
        REQUIRE((answers[at] == not_judged && places[at + 1] == 1));
        size_t t = 1;
        for (; answers[at + t] != 256; ++t) {
          REQUIRE(answers[at + t] == tokens[at + t + 1]);
          REQUIRE((is_chosen ? answers[at + t] == 'y' : answers[at + t] != 'y'));
        }
        for (++t; t < size_t(context) / 2; ++t)
          REQUIRE((answers[at + t] == not_judged && tokens[at + t] == 256 && places[at + t] == 0));
      }
    }
  }
  REQUIRE_ERROR(rows_of({corpus, nullptr}, {.context = 9}), "expected an even number");
  REQUIRE_ERROR(rows_of({corpus, nullptr}, {.context = 4}),
                "and 40 left out, with a text of more than 2 tokens");
}

TEST_CASE("preferences are prepared, learned and resumed", "[cli]") {
  if (on_runner()) return;  // it has no kernel of its own, and takes minutes there
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += fmt::format(R"({{"prompt": "{} = ", "chosen": "{}", "rejected": "x{}", "id": 1}})"
                         "\n",
                         i, i, i % 7);
  folder.write("p.jsonl", lines);
  const std::string said = succeed(fmt::format("text prepare --hold-out 0.3 --text {} --out {}",
                                               folder / "p.jsonl", folder / "corpus"));
  REQUIRE_THAT(said, ContainsSubstring("30 samples of 2 texts, "));
  REQUIRE_THAT(said, ContainsSubstring("values in JSON by the names id (30)"));
  const std::string data = " --data " + (folder / "corpus"),
                    size = " --micro-batch 3 --effective-batch 8 ";
  succeed(
      "train --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --context 24 --steps 1 "
      "--data grammar --save " +
      (folder / "base") + size);
  const std::string full =
                        "train --init " + (folder / "base") + data + size + "--context 24 --steps ",
                    train = full + "3 --lora 2 --dpo-beta 0.5 --optimizer adam --lr 0.01",
                    checkpoints = " --checkpoint-dir " + (folder / "checkpoints");
  refuse(full + "1", "expected adapters (LoRA)");
  refuse(full + "1 --lora 2 --documents padded", "expected a corpus of single texts");
  refuse("train --model gpt-tiny --steps 1 --dpo-beta 1",
         "expected a corpus of prompts with chosen and rejected answers");
  const std::string whole = succeed(train + " --save " + (folder / "whole"));
  REQUIRE_THAT(whole, ContainsSubstring("predicted to the byte"));
  const size_t score = whole.find("test reward accuracy ");
  REQUIRE(score != std::string::npos);
  succeed(full + "2 --lora 2 --dpo-beta 0.5 --optimizer adam --lr 0.01" + checkpoints);
  succeed(train + " --resume --save " + (folder / "resumed") + checkpoints);
  REQUIRE(file_bytes(folder / "whole") == file_bytes(folder / "resumed"));
  refuse(full + "3 --lora 2 --dpo-beta 0.4 --optimizer adam --lr 0.01 --resume" + checkpoints,
         "dpo-beta");
  // The weights' file has the settings on which its score depends.
  REQUIRE_THAT(succeed("eval --init " + (folder / "whole") + data),
               ContainsSubstring(whole.substr(score, whole.find('\n', score) - score)));
  const std::string merged = folder / "merged";
  succeed("text merge --weights " + (folder / "whole") + " --out " + merged);
  refuse("eval --init " + merged + data, "expected adapters (LoRA)");
}

}  // namespace preferences_test
}  // namespace accrue::test
