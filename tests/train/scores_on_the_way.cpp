// Runs that score other data on their way: when they do, what happens to the best weights, and when
// the score ends the run.

#include <map>

#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "train/memory_prediction.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

// 30 digits in windows of 12, 12 and 6.
TrainingOptions scored_run() {
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::cnn_bn, .width = 0.25});
  options.batches = {.micro = 5, .effective = 12};
  options.epochs = 4;
  options.eval_every = 2;
  return options;
}

Datasets few() {
  const BuiltInOptions sizes{.train_size = 30, .test_size = 20};
  return place_data({make_digits(Split::train, sizes), make_digits(Split::test, sizes)},
                    test_device());
}

struct Scores : Observer {
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override {
    all.push_back({epoch, windows, score.loss, is_best});
  }
  struct Seen {
    int64_t epoch, windows;
    double loss;
    bool is_best;
    auto operator<=>(const Seen&) const = default;
  };
  std::vector<Seen> all;
};

std::vector<int64_t> windows_of(const Scores& scores) {
  std::vector<int64_t> windows;
  for (const auto& seen : scores.all) windows.push_back(seen.windows);
  return windows;
}

}  // namespace

TEST_CASE("a score is given up before its next piece", "[window]") {
  const Datasets data = few();
  Trainer trainer(scored_run(), data.train, test_device(), data.test);
  const double whole = trainer.evaluate(data.test).loss;
  int64_t asked = 0;
  const StopRequest in_the_third = [&] { return ++asked == 3 ? Stop::now : Stop::no; };
  REQUIRE_THROWS_AS(trainer.evaluate(data.test, in_the_third), Stopped);
  REQUIRE(asked == 3);
  REQUIRE(trainer.evaluate(data.test).loss == whole);
  // If a run is stopped after a window, that window is still scored.
  Scores scores;
  trainer.run(scores, [&] { return trainer.windows() > 1 ? Stop::after_window : Stop::no; });
  REQUIRE(windows_of(scores) == std::vector<int64_t>{2});
}

TEST_CASE("a run is scored after a number of windows, or every epoch", "[window]") {
  const Datasets data = few();
  TrainingOptions options = scored_run();
  Scores scores;
  Trainer trainer(options, data.train, test_device(), data.test);
  trainer.run(scores);
  REQUIRE(windows_of(scores) == std::vector<int64_t>{2, 4, 6, 8, 10, 12});
  REQUIRE(scores.all[2].epoch == 1);  // the last window of this epoch
  REQUIRE(scores.all.back().loss == trainer.evaluate(data.test).loss);

  // Scoring changes nothing.
  options.eval_every.reset();
  Trainer plain(options, data.train, test_device());
  plain.run(scores);
  REQUIRE(to_doubles(plain.training().parameters().values()) ==
          to_doubles(trainer.training().parameters().values()));
  REQUIRE(to_doubles(plain.training().parameters().buffers()) ==
          to_doubles(trainer.training().parameters().buffers()));

  options.eval_every = each_epoch;
  Scores epochs;
  Trainer(options, data.train, test_device(), data.test).run(epochs);
  REQUIRE(windows_of(epochs) == std::vector<int64_t>{3, 6, 9, 12});
}

TEST_CASE("the memory of scores is predicted with that of the windows", "[window]") {
  // So many test samples that their order takes more memory than a micro-step.
  const BuiltInOptions sizes{.train_size = 30, .test_size = reduced() ? 1000 : 2000};
  const Datasets data = place_data(
      {make_digits(Split::train, sizes), make_digits(Split::test, sizes)}, test_device());
  TrainingOptions options = scored_run();
  options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25});
  options.batches.micro = 1;
  options.epochs = 1;
  for (const bool scored : {false, true}) {
    if (!scored) options.eval_every.reset();
    else options.eval_every = 3;
    Scores scores;
    Trainer trainer(options, data.train, test_device(), data.test);
    trainer.run(scores);
    REQUIRE(predict_peak(options, data, test_device()).bytes == ledger(test_device()).peak().bytes);
  }
}

TEST_CASE("a run without a better score ends, also when it is resumed", "[window]") {
  const Datasets data = few();
  const TemporaryDirectory folder;
  TrainingOptions options = scored_run();
  options.schedule.base = 0;
  options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25});
  options.patience = 3;
  options.checkpoints = {.directory = folder.path().string(), .every = 1, .resume = true};
  Scores scores;
  {
    Trainer trainer(options, data.train, test_device(), data.test);
    trainer.run(scores, [&] { return trainer.windows() >= 5 ? Stop::after_window : Stop::no; });
    REQUIRE_FALSE(trainer.is_finished());
  }
  Trainer trainer(options, data.train, test_device(), data.test);
  trainer.resume(scores);
  trainer.run(scores);
  REQUIRE(windows_of(scores) == std::vector<int64_t>{2, 4, 6, 8});
  REQUIRE((scores.all[0].is_best && !scores.all[1].is_best));
  REQUIRE(trainer.has_stopped_early());
  REQUIRE(trainer.is_finished());
}

TEST_CASE("the best checkpoint stays beside the last", "[window]") {
  const Datasets data = few();
  const TemporaryDirectory folder;
  TrainingOptions options = scored_run();
  options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25});
  options.schedule.base = 0.05;  // too high to improve for long
  options.eval_every = 1;
  options.keep_best = true;
  options.checkpoints = {.directory = folder.path().string(), .every = 1, .keep_last = 1};
  Scores scores;
  Trainer trainer(options, data.train, test_device(), data.test);
  trainer.run(scores);
  const auto best = std::ranges::min(scores.all, {}, &Scores::Seen::loss);
  REQUIRE(best.is_best);
  REQUIRE(best.windows < 12);
  const auto path =
      folder.path() / fmt::format("best/step-{:08}/weights.safetensors", best.windows);
  trainer.load_weights(path.string());
  REQUIRE(trainer.evaluate(data.test).loss == best.loss);
  REQUIRE(std::distance(fs::directory_iterator(folder.path() / "best"), {}) == 1);
}

TEST_CASE("train tells its scores", "[cli][full]") {
  const Folder folder;
  const std::string train = "train --model mlp-small --steps 4 --lr 0.1 --micro-batch 50 " +
                            std::string("--effective-batch 200 --patience 1 --eval-every 2 ") +
                            "--json " + (folder / "log");
  const std::string text = succeed(train);
  REQUIRE_THAT(text, ContainsSubstring("[Epoch 1][Window 2 of the run] test accuracy"));
  REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
  auto lines = json_lines(folder / "log");
  std::erase_if(lines, [](const auto& line) { return !line.contains("is_best"); });
  REQUIRE(lines.at(0)["window"] == 2);
  REQUIRE(lines.at(0)["test"]["accuracy"].is_number());
  refuse("train --patience 3", "requires --eval-every");
  refuse("train --eval-every 2 --keep-best", "there are none: expected a directory");
  refuse("train --eval-every often", "expected a whole number above 0, or epoch");
}

}  // namespace accrue::test
