// Texts that are compared with all others in a window. tests/golden/pairs.safetensors has the
// results of transformers' models, which start from the same weights and take the whole window as
// one batch (scripts/golden_pairs.py).

#include "text/text_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/walked_window.h"
#include "text/documents.h"
#include "text/models.h"
#include "text/rows.h"
#include "train/game.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue::test {
namespace text_pairs_test {
namespace {

std::map<std::string, Tensor> golden() { return golden_tensors("pairs"); }

enum class Padding { left_out, counts };

// "gpt2" has anchors and positives, and "llama" has negatives, too. If padding counts, a mistake
// that a test must see, it is a part of the last text.
Samples samples_of(const std::string& name, Padding padding) {
  const auto stored = golden();
  const auto field = [&](const char* of) { return stored.at(fmt::format("{}.{}", of, name)); };
  const Tensor lengths = field("lengths");
  if (padding == Padding::counts) {
    const auto each = lengths.span<int32_t>();
    const size_t P = size_t(lengths.size(1));
    for (size_t n = 0; n < each.size(); n += P)
      each[n + P - 1] = 12 - std::accumulate(&each[n], &each[n + P - 1], 0);
  }
  return {{{"tokens", field("tokens").to(test_device())},
           {"positions", field("positions").to(test_device())},
           {"lengths", lengths.to(test_device())}}};
}

struct Learner {
  Learner(const std::string& name, double dropout, Strategy strategy)
      : model(make_text_model(network(name, dropout))),
        parameters(place(*model, DType::f64, test_device(), 3, gradient_storage(strategy))) {
    const auto stored = golden();
    for (const auto& entry : parameters.entries())
      if (const auto found = stored.find(fmt::format("init.{}.{}", name, entry.name));
          found != stored.end())
        entry.tensor.copy_from(as_f64(found->second, test_device()));
  }
  static TextModelOptions network(const std::string& name, double dropout) {
    if (name == "gpt2")
      return Gpt2Options{.vocabulary = 23,
                         .context = 12,
                         .width = 12,
                         .layers = 2,
                         .heads = 3,
                         .dropout = dropout};
    return LlamaOptions{
        .vocabulary = 23, .width = 16, .hidden = 24, .layers = 2, .heads = 4, .groups = 2};
  }
  std::unique_ptr<LanguageModel> model;
  Parameters parameters;
};

WindowOutcome run(const std::string& name, const MicroBatchSizes& split,
                  Strategy strategy = Strategy::fused, double dropout = 0,
                  LossWay way = LossWay::walks, Ranks* ranks = nullptr,
                  Padding padding = Padding::left_out) {
  Learner learner(name, dropout, strategy);
  const auto optimizer = adam(learner.parameters, {.eps = 1e-4});
  Window window(*optimizer, ScheduleOptions{.base = 0.01},
                {.effective_batch_size = golden_window_size, .strategy = strategy, .ranks = ranks});
  const auto parts = share_of(ranks, micro_batches_of(samples_of(name, padding), split));
  const ObjectivePtr objective = text_pairs();
  const Player player = player_of(way, *learner.model, *objective, window, parts.size(), ranks);
  return take_steps(player, parts, reduced() ? 2 : golden_steps);
}

// Compares the tensors that the golden file has under this name. A loss without a head has no
// entries for the head.
double difference(const WindowOutcome& found, const std::string& name) {
  const auto stored = golden();
  double most = 0;
  const auto compare = [&](const Values& a, const std::string& what) {
    const auto other = stored.find(what);
    if (other == stored.end()) return;
    Values b = to_doubles(other->second);
    b.resize(std::min(a.size(), b.size()));
    most = std::max(most, largest_difference(a, b));
  };
  REQUIRE(stored.contains("loss." + name));
  compare(found.losses, "loss." + name);
  if (!std::isnan(found.norms[0])) compare(found.norms, "grad_norm." + name);
  for (const auto& [of, values] : found.gradients)
    compare(values, fmt::format("grad.{}.{}", name, of));
  if (std::ssize(found.losses) == golden_steps)
    for (const auto& [of, values] : found.weights)
      compare(values, fmt::format("final.{}.{}", name, of));
  return most;
}

std::vector<WindowOutcome> run_by_ranks(int count, const std::string& name,
                                        const MicroBatchSizes& split,
                                        Strategy strategy = Strategy::fused, double dropout = 0,
                                        LossWay way = LossWay::walks) {
  std::vector<WindowOutcome> found(static_cast<size_t>(count));
  run_ranks(count, [&](Ranks& ranks) {
    found[size_t(ranks.rank())] = run(name, split, strategy, dropout, way, &ranks);
  });
  return found;
}

}  // namespace

TEST_CASE("pairs of texts are transformers' over the whole window, for every split", "[golden]") {
  for (const std::string name : {"gpt2", "llama"}) {
    const bool is_first = name == "gpt2";
    for (size_t i = 0; i < golden_splits.size(); ++i)
      for (const Strategy strategy :
           {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
        const MicroBatchSizes& split = golden_splits[i];
        if (strategy == Strategy::step_in_backward && split.size() > 1) continue;
        // Takes each split once. Strategy `separate` does not depend on the network, and is tested
        // elsewhere (accumulate/strategies.cpp).
        if (reduced() && (is_first != (i % 2 == 0) || strategy == Strategy::separate)) continue;
        INFO(name << " in " << split.size() << " micro-batches, strategy " << int(strategy));
        REQUIRE(difference(run(name, split, strategy), name) <= 1e-12);
      }
    const MicroBatchSizes split{5, 4, 3};
    if (!reduced() || is_first)
      REQUIRE(difference(run(name, split, Strategy::fused, 0, LossWay::unweighted), name) > 1e-4);
    if (reduced() && is_first) continue;
    REQUIRE(
        difference(run(name, split, Strategy::fused, 0, LossWay::walks, nullptr, Padding::counts),
                   name) > 1e-4);
  }
}

TEST_CASE("pairs of texts are compared over all ranks", "[ranks][golden]") {
  for (const std::string name : {"gpt2", "llama"}) {
    const bool is_first = name == "gpt2";
    for (const int count : {2, 3})
      for (size_t i = 0; i < golden_splits.size(); ++i) {
        const MicroBatchSizes& split = golden_splits[i];
        // Takes each number of ranks and each split with one of the networks.
        if (reduced() && is_first != ((i + size_t(count)) % 2 == 0)) continue;
        for (const WindowOutcome& one : run_by_ranks(count, name, split)) {
          INFO(name << ": " << count << " ranks, " << split.size() << " micro-batches");
          REQUIRE(difference(one, name) <= 1e-12);
        }
      }
    if (reduced() && is_first) continue;
    for (const WindowOutcome& one :
         run_by_ranks(2, name, {5, 4, 3}, Strategy::fused, 0, LossWay::each_rank))
      REQUIRE(difference(one, name) > 1e-4);
  }
}

TEST_CASE("both walks of a window of texts have the same masks", "[golden]") {
  const auto with = [](const MicroBatchSizes& split, LossWay way) {
    return run("gpt2", split, Strategy::fused, 0.3, way);
  };
  const WindowOutcome expected = with({12}, LossWay::at_once);
  REQUIRE(difference(with({12}, LossWay::walks), expected) <= 1e-12);
  REQUIRE(difference(with({5, 4, 3}, LossWay::walks), expected) <= 1e-12);
  REQUIRE(difference(with({12}, LossWay::other_masks), expected) > 1e-4);
  for (const WindowOutcome& one : run_by_ranks(2, "gpt2", {5, 4, 3}, Strategy::fused, 0.3))
    REQUIRE(difference(one, expected) <= 1e-12);
}

namespace {

// Lines of JSON; the n-th pair is the number n and its name in words.
std::string pair_lines(int count) {
  static const std::vector<std::string> words{"nil",  "one", "two",   "three", "four",
                                              "five", "six", "seven", "eight", "nine"};
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += fmt::format("{{\"anchor\": \"{}\", \"positive\": \"{} {}\"}}\n", i,
                         words[size_t(i / 10)], words[size_t(i % 10)]);
  return lines;
}

CorpusPtr corpus_of_pairs(int count) {
  CorpusWriter writer({.name = "pairs",
                       .source = "pairs",
                       .tokenizer = "bytes",
                       .vocabulary = 257,
                       .end_of_text = 256,
                       .hold_out = 0.4});
  for (int i = 0; i < count; ++i) {
    writer.add(std::vector<int32_t>(size_t(i % 3 + 1), 5 + i));
    writer.add(std::vector<int32_t>(size_t(i % 7 + 1), 105 + i));
  }
  writer.set_texts_of_sample(2);
  return writer.finish();
}

TrainingOptions options_of(int64_t micro, int64_t effective) {
  TrainingOptions options;
  options.model = [] {
    return make_text_model(Gpt2Options{
        .vocabulary = 257, .context = 12, .width = 12, .layers = 1, .heads = 2, .dropout = 0.1});
  };
  options.objective = text_pairs();
  options.batches = {.micro = micro, .effective = effective};
  options.epochs = 1;
  options.eval_every = each_epoch;
  return options;
}

}  // namespace

TEST_CASE("rows of samples have their texts side by side", "[text]") {
  const auto [train, test] = rows_of({corpus_of_pairs(40), nullptr}, {.context = 12});
  REQUIRE(train.size() + test.size() == 40);
  REQUIRE(test.size() > 5);
  for (const Dataset* data : {&train, &test}) {
    const Samples all = gather(*data, 0, data->size());
    const auto tokens = all["tokens"].span<int32_t>(), positions = all["positions"].span<int32_t>(),
               lengths = all["lengths"].span<int32_t>();
    for (size_t n = 0; n < size_t(data->size()); ++n) {
      const int32_t i = tokens[12 * n] - 5;
      REQUIRE(lengths[2 * n] == i % 3 + 1);
      REQUIRE(lengths[2 * n + 1] == std::min(i % 7 + 1, 6));  // cut
      for (int32_t t = 0; t < 12; ++t) {
        const int32_t first = lengths[2 * n], end = first + lengths[2 * n + 1];
        REQUIRE(tokens[12 * n + size_t(t)] == (t < first ? 5 + i : t < end ? 105 + i : 256));
        REQUIRE(positions[12 * n + size_t(t)] == (t < first ? t : t < end ? t - first : 0));
      }
    }
  }
  REQUIRE_ERROR(rows_of({corpus_of_pairs(40), nullptr}, {.context = 1}), "at least one for each");
}

TEST_CASE("a score compares all held-out texts, for every split and number of ranks", "[text]") {
  const Dataset data = rows_of({corpus_of_pairs(40), nullptr}, {.context = 12}).train;
  const TrainingOptions options = options_of(4, 8);
  const auto model = options.model();
  const Parameters parameters = place(*model, DType::f64, test_device(), 3);
  const auto score = [&](int64_t micro, Ranks* ranks) {
    return evaluate(*model, *options.objective, data, micro, DType::f64, test_device(), ranks);
  };
  // The score by its definition.
  const NoGrad no_grad;
  Samples all = gather(data, 0, data.size(), DType::f64);
  for (auto& field : all.fields) field.values = field.values.to(test_device());
  const Values z = to_doubles(options.objective->answer(*model, all, Pass::eval()));
  const size_t N = size_t(data.size()), E = 12;
  const auto cosine = [&](size_t i, size_t j) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t e = 0; e < E; ++e) {
      const double a = z[2 * i * E + e], b = z[(2 * j + 1) * E + e];
      ab += a * b, aa += a * a, bb += b * b;
    }
    return ab / std::sqrt(aa * bb);
  };
  double loss = 0, right = 0;
  for (size_t i = 0; i < N; ++i) {
    double sum = 0;
    bool is_nearest = true;
    for (size_t j = 0; j < N; ++j) {
      sum += std::exp(20 * cosine(i, j));
      is_nearest &= cosine(i, j) <= cosine(i, i);
    }
    loss += std::log(sum) - 20 * cosine(i, i);
    right += is_nearest;
  }
  const auto is_right = [&](const Score& found) {
    return found.samples == data.size() && std::abs(found.loss - loss / double(N)) <= 1e-12 &&
           found["recall@1"] == 100 * right / double(N);
  };
  for (const int64_t micro : {int64_t(N), int64_t{7}, int64_t{1}})
    REQUIRE(is_right(score(micro, nullptr)));
  for (const int count : {2, 3}) {
    std::vector<Score> found(static_cast<size_t>(count));
    run_ranks(count,
              [&](Ranks& ranks) { found[size_t(ranks.rank())] = score(1 + ranks.rank(), &ranks); });
    for (const Score& one : found) REQUIRE(is_right(one));
  }
}

namespace {

// Twelve samples of three texts, by the texts' numbers; several texts are equal.
constexpr std::array<std::array<int, 3>, 12> equal_texts{{{1, 20, 30},
                                                          {2, 20, 31},
                                                          {3, 21, 20},
                                                          {4, 22, 32},
                                                          {1, 20, 33},
                                                          {5, 23, 32},
                                                          {6, 24, 34},
                                                          {7, 22, 35},
                                                          {8, 25, 36},
                                                          {9, 26, 25},
                                                          {10, 27, 37},
                                                          {11, 28, 38}}};

CorpusPtr corpus_of_equal_texts() {
  CorpusWriter writer({.name = "equal",
                       .source = "equal",
                       .tokenizer = "bytes",
                       .vocabulary = 257,
                       .end_of_text = 256,
                       .hold_out = 0.3});
  for (const auto& sample : equal_texts)
    for (const int text : sample) writer.add(std::vector<int32_t>(size_t(text % 4 + 1), text));
  writer.set_texts_of_sample(3);
  return writer.finish();
}

}  // namespace

TEST_CASE("equal texts of a window are no negatives of each other where they are ignored",
          "[text]") {
  const Datasets sets = rows_of({corpus_of_equal_texts(), nullptr}, {.context = 12});
  const Dataset& data = sets.train;
  REQUIRE(sets.test.has("texts"));
  const size_t N = size_t(data.size()), E = 12;
  REQUIRE(N >= 7);
  const Samples stored = gather(data, 0, data.size(), DType::f64);
  const auto tokens = stored["tokens"].span<int32_t>(), lengths = stored["lengths"].span<int32_t>();
  std::vector<std::array<int32_t, 3>> texts(N);  // each text by the token that it repeats
  for (size_t n = 0; n < N; ++n)
    for (size_t p = 0, t = 12 * n; p < 3; t += size_t(lengths[3 * n + p++]))
      texts[n][p] = tokens[t];
  int64_t with_equals = 0;
  for (size_t i = 0; i < N; ++i)
    with_equals += std::ranges::count(texts, texts[i][1], [](auto& t) { return t[1]; }) +
                       std::ranges::count(texts, texts[i][1], [](auto& t) { return t[2]; }) >
                   1;
  REQUIRE(with_equals >= 4);
  REQUIRE(samples_with_equal_positives(data) == with_equals);

  for (const Duplicates duplicates : {Duplicates::ignore, Duplicates::negatives}) {
    INFO("duplicates: " << int(duplicates));
    TrainingOptions options = options_of(4, 8);
    options.objective = text_pairs({.duplicates = duplicates, .some_are_equal = true});
    const auto model = options.model();
    const Parameters parameters = place(*model, DType::f64, test_device(), 3);
    Samples all = stored;
    for (auto& field : all.fields) field.values = field.values.to(test_device());
    // By the definition, with each text once.
    double loss = 0, right = 0;
    {
      const NoGrad no_grad;
      const Tensor answers = options.objective->answer(*model, all, Pass::eval());
      REQUIRE(answers.size(1) == 4);
      const Values z = to_doubles(answers);
      const auto cosine = [&](size_t i, size_t j, size_t p) {
        double ab = 0, aa = 0, bb = 0;
        for (size_t e = 0; e < E; ++e) {
          const double a = z[4 * i * E + e], b = z[(4 * j + p) * E + e];
          ab += a * b, aa += a * a, bb += b * b;
        }
        return ab / std::sqrt(aa * bb);
      };
      for (size_t i = 0; i < N; ++i) {
        std::map<int32_t, double> once;
        double sum = 0;
        for (size_t p : {1, 2})
          for (size_t j = 0; j < N; ++j) {
            once.emplace(texts[j][p], cosine(i, j, p));
            sum += std::exp(20 * cosine(i, j, p));
          }
        const double own = once.at(texts[i][1]);
        if (duplicates == Duplicates::ignore) sum = 0;
        bool is_nearest = true;
        for (const auto& [text, near] : once) {
          if (duplicates == Duplicates::ignore) sum += std::exp(20 * near);
          is_nearest &= near <= own;
        }
        loss += (std::log(sum) - 20 * own) / double(N);
        right += is_nearest;
      }
    }
    const auto is_right = [&](const Score& found) {
      return found.samples == data.size() && std::abs(found.loss - loss) <= 1e-12 &&
             found["recall@1"] == 100 * right / double(N);
    };
    for (const int64_t micro : {int64_t(N), int64_t{3}})
      REQUIRE(
          is_right(evaluate(*model, *options.objective, data, micro, DType::f64, test_device())));
    std::vector<Score> by_ranks(2);
    run_ranks(2, [&](Ranks& ranks) {
      by_ranks[size_t(ranks.rank())] =
          evaluate(*model, *options.objective, data, 2, DType::f64, test_device(), &ranks);
    });
    for (const Score& one : by_ranks) REQUIRE(is_right(one));

    // For every split, the step equals the step of the whole window.
    const auto steps = [&](const MicroBatchSizes& split, Ranks* ranks) {
      const auto learner = options.model();
      Parameters own = place(*learner, DType::f64, test_device(), 3);
      const auto optimizer = adam(own, {.eps = 1e-4});
      Window window(*optimizer, ScheduleOptions{.base = 0.01},
                    {.effective_batch_size = 7, .ranks = ranks});
      const auto parts = share_of(ranks, micro_batches_of(all.slice(0, 7), split));
      return take_steps(
          player_of(LossWay::walks, *learner, *options.objective, window, parts.size(), ranks),
          parts, 2);
    };
    const WindowOutcome whole = steps({7}, nullptr);
    REQUIRE(difference(steps({3, 2, 2}, nullptr), whole) <= 1e-12);
    std::vector<WindowOutcome> of_ranks(2);
    run_ranks(2, [&](Ranks& ranks) { of_ranks[size_t(ranks.rank())] = steps({4, 3}, &ranks); });
    for (const WindowOutcome& one : of_ranks) REQUIRE(difference(one, whole) <= 1e-12);
  }
}

TEST_CASE("the memory of pairs of texts is predicted to the byte", "[plan][memory]") {
  if (test_device() != Device::cpu) return;
  const Datasets different = rows_of({corpus_of_pairs(40), nullptr}, {.context = 12});
  const Datasets equal = rows_of({corpus_of_equal_texts(), nullptr}, {.context = 12});
  for (const auto& [micro, duplicates] : {std::pair{12, 0}, {5, 0}, {1, 0}, {3, 1}, {3, 2}}) {
    const Datasets& data = duplicates > 0 ? equal : different;
    TrainingOptions options = options_of(micro, duplicates > 0 ? 6 : 12);
    if (duplicates > 0)
      options.objective =
          text_pairs({.duplicates = duplicates == 1 ? Duplicates::ignore : Duplicates::negatives,
                      .some_are_equal = true});
    Training training(options, data.train, Device::cpu);
    ledger(Device::cpu).reset_peak();
    Observer nobody;
    for (int64_t window = 0; window < training.loader().windows_per_epoch(); ++window)
      training.play(0, window, nobody);
    evaluate(training.model(), training.objective(), data.test, micro,
             training.parameters().compute_dtype(), Device::cpu);
    const Usage measured = ledger(Device::cpu).peak(),
                predicted = predict_peak(options, data, Device::cpu);
    INFO("micro-batches of " << micro << ": predicted " << to_string(predicted) << ", measured "
                             << to_string(measured));
    REQUIRE(predicted.bytes == measured.bytes);
  }
}

TEST_CASE("lines of anchors and positives are samples of texts", "[text]") {
  std::map<std::string, int64_t> unused;
  const auto document = [&](const std::string& line) {
    return document_of_json(line, ChatForm::chatml, "here", unused);
  };
  const TextDocument pair = document(R"({"anchor": "a", "positive": "p", "note": 1})");
  REQUIRE(pair.is_sample);
  REQUIRE(pair.parts.size() == 2);
  REQUIRE(pair.parts[1].text == "p");
  REQUIRE(unused.at("note") == 1);
  REQUIRE(document(R"({"negative": "n", "anchor": "a", "positive": "p"})").parts[2].text == "n");
  REQUIRE_ERROR(document(R"({"anchor": "a"})"), "with anchor and positive");
  REQUIRE_ERROR(document(R"({"anchor": "a", "positive": ""})"), "positive is empty");
  REQUIRE_ERROR(document(R"({"anchor": "a", "positive": "p", "negative": 1})"), "negative is 1");
  REQUIRE_ERROR(document(R"({"anchor": "a", "positive": "p", "text": "t"})"),
                "expected an object with text");
  // A label or score of 1 says that the two texts belong together. Any other value is refused, and
  // not learned like 1.
  REQUIRE(document(R"({"anchor": "a", "positive": "p", "label": 1})").parts.size() == 2);
  REQUIRE(document(R"({"anchor": "a", "positive": "p", "score": 1.0})").parts.size() == 2);
  REQUIRE(!unused.contains("label"));
  for (const char* const label : {"\"label\": 0", "\"labels\": -1", "\"score\": 0.8",
                                  "\"scores\": [1, 0]", "\"label\": \"1\""})
    REQUIRE_ERROR(document(fmt::format(R"({{"anchor": "a", "positive": "p", {}}})", label)),
                  "learned as texts that belong together: expected 1 or none");
}

TEST_CASE("pairs of texts are prepared, learned and resumed", "[cli]") {
  if (on_runner()) return;  // its kernels are compared with golden pairs there; it takes minutes
  const Folder folder;
  folder.write("pairs.jsonl", pair_lines(60));
  const std::string data = " --data " + (folder / "corpus");
  REQUIRE_THAT(succeed(fmt::format("text prepare --hold-out 0.3 --text {} --out {}",
                                   folder / "pairs.jsonl", folder / "corpus")),
               ContainsSubstring("60 samples of 2 texts, "));
  const std::string train =
      "train --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --context 32 --dropout 0.1 "
      "--micro-batch 3 --effective-batch 8 --seed 4" +
      data;
  const std::string said = succeed(train + " --steps 3 --save " + (folder / "whole"));
  REQUIRE_THAT(said, ContainsSubstring("predicted to the byte"));
  REQUIRE_THAT(said, ContainsSubstring("test recall@1 "));
  const std::string checkpoints = " --checkpoint-dir " + (folder / "checkpoints");
  succeed(train + " --steps 2" + checkpoints);
  succeed(train + " --steps 3 --resume" + checkpoints + " --save " + (folder / "resumed"));
  REQUIRE(file_bytes(folder / "whole") == file_bytes(folder / "resumed"));
  refuse(train + " --steps 3 --similarity-scale 10 --resume" + checkpoints, "similarity-scale");
  REQUIRE_THAT(succeed("eval --init " + (folder / "whole") + data),
               ContainsSubstring("test recall@1"));
  // The model's head is untrained: it answers with embeddings until it is trained to write.
  REQUIRE(read_safetensors_metadata(folder / "whole").at("embeddings") == "mean, norm 1");
  refuse("predict --data digits --out " + (folder / "answers") + " --weights " + (folder / "whole"),
         "embeddings of texts are made by accrue.predict()");
  refuse("text write --prompt x --weights " + (folder / "whole"), "nobody has trained its head");
  const std::string text = " --data grammar --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 ";
  succeed("train --micro-batch 4 --effective-batch 4 --context 32 --steps 1 --init " +
          (folder / "whole") + text + "--save " + (folder / "writes"));
  REQUIRE(!read_safetensors_metadata(folder / "writes").contains("embeddings"));
  refuse(
      "predict --data digits --out " + (folder / "answers") + " --weights " + (folder / "writes"),
      "a language model writes by accrue text write");
  refuse(train + " --steps 1 --documents padded", "expected a corpus of single texts");
  refuse("train --model gpt-tiny --steps 1 --similarity-scale 10",
         "expected a corpus of anchors and positives");
  refuse(train + " --steps 1 --sequence-piece 8", "expected no sequence-piece");
  folder.write("mixed.jsonl", pair_lines(2) + "{\"text\": \"alone\"}\n");
  refuse(fmt::format("text prepare --text {} --out {}", folder / "mixed.jsonl", folder / "mixed"),
         "line 3 is a sample of 1 text, but those before it are of 2 texts");
}

TEST_CASE("lines of JSON are learned as the corpus that is made of them", "[cli]") {
  const Folder folder;
  folder.write("pairs.jsonl", pair_lines(60));
  const std::string lines = folder / "pairs.jsonl",
                    prepare = fmt::format("text prepare --text {} --out ", lines);
  succeed(prepare + (folder / "of-bytes"));
  succeed(prepare + (folder / "of-words") + " --train-tokenizer 300");
  const std::string learn =
      "train --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --context 32 --micro-batch 3 "
      "--effective-batch 8 --sample-every 2 --steps 2 --data ";
  const std::string tokenizer = " --tokenizer " + (folder / "of-words");
  for (const auto& [corpus, how] : {std::pair(std::string("of-bytes"), std::string()),
                                    std::pair(std::string("of-words"), tokenizer)}) {
    INFO(corpus);
    succeed(learn + (folder / corpus) + " --save " + (folder / "prepared"));
    const std::string said = succeed(learn + lines + how + " --save " + (folder / "direct"));
    REQUIRE(file_bytes(folder / "direct") == file_bytes(folder / "prepared"));
    REQUIRE_THAT(said, ContainsSubstring("predicted to the byte"));
    const auto score = [&](const std::string& data) {
      const std::string text = succeed("eval --init " + (folder / "direct") + " --data " + data);
      return text.substr(text.find("test "));
    };
    REQUIRE(score(lines + how) == score(folder / corpus));
  }
  refuse(learn + (folder / "of-words") + tokenizer, "expected a file of JSON lines");
  refuse(learn + lines + " --hold-out 0.3", "expected it of `accrue text prepare`");
  folder.write("bad.jsonl", pair_lines(2) + "{\"anchor\": \"alone\"}\n");
  refuse(learn + (folder / "bad.jsonl"), "bad.jsonl', line 3 has anchor: expected an object with");
}

}  // namespace text_pairs_test
}  // namespace accrue::test
