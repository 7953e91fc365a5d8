// The training loop as another program uses it. tests/apps/cli.cpp and tests/train/checkpoints.cpp
// test it through the program.

#include "train/trainer.h"

#include <map>
#include <set>

#include "images/digits.h"
#include "kernels/losses.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "train/memory_prediction.h"

namespace accrue::test {
namespace {

// 30 digits in windows of 12, 12 and 6, two epochs: six steps.
constexpr int64_t steps = 6;

TrainingOptions options_of_run(const std::string& checkpoints = {}) {
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::mlp_small, .dropout = 0.1, .width = 0.25});
  options.batches = {.micro = 5, .effective = 12};
  options.epochs = 2;
  options.checkpoints = {.directory = checkpoints, .every = 2, .resume = !checkpoints.empty()};
  return options;
}

Datasets digits() {
  const BuiltInOptions sizes{.train_size = 30, .test_size = 10};
  return place_data({make_digits(Split::train, sizes), make_digits(Split::test, sizes)},
                    test_device());
}

// Records each call of an observer as a line.
struct Diary : Observer {
  void on_damaged_checkpoint(const std::string&) override { lines.push_back("damaged"); }
  void on_resume(const std::filesystem::path& checkpoint, const std::string& differences) override {
    lines.push_back("resumed " + checkpoint.filename().string() + differences);
  }
  void on_no_checkpoint(const std::filesystem::path&) override { lines.push_back("none"); }
  void on_window(const Player&) override { ++windows; }
  void on_step(const WindowReport& report) override {
    lines.push_back(fmt::format("{}.{}: {}", report.epoch, report.step, report.samples));
  }
  void on_refused_graph(const std::string& line) override { refused_graphs.push_back(line); }
  void on_checkpoint() override { lines.push_back("checkpoint"); }

  std::vector<std::string> lines, refused_graphs;
  int64_t windows = 0;
};

std::vector<double> weights(Trainer& trainer) {
  return to_doubles(trainer.training().parameters().values());
}

using Lines = std::vector<std::string>;

// A task that accrue does not know: the brightness of an image.
struct Brightness : Objective {
  explicit Brightness(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<std::string> targets() const override { return {"brightness"}; }
  Tensor loss(const Tensor& answer, const Samples& samples) const override {
    return mse_loss(answer, samples["brightness"]);
  }

 private:
  std::string name_;
};

Dataset with_brightness(const Dataset& digits) {
  const Tensor images = on_host(digits["images"]);
  std::vector<float> means;
  for (int64_t i = 0; i < images.size(0); ++i) {
    const Tensor image = images.slice(i, i + 1);
    double sum = 0;
    for (const uint8_t pixel : image.span<uint8_t>()) sum += pixel;
    means.push_back(static_cast<float>(sum / 784 / 255));
  }
  const Tensor brightness = Tensor::from(means, {images.size(0), 1}, digits.device());
  return {"bright digits",
          "test",
          {digits.field("images"), {"brightness", brightness, Encoding::number}}};
}

}  // namespace

TEST_CASE("an observer is told of everything in order", "[window]") {
  const Datasets data = digits();
  const TemporaryDirectory folder;
  Trainer trainer(options_of_run(folder.path().string()), data.train, test_device());
  Diary diary;
  trainer.resume(diary);
  trainer.run(diary);
  REQUIRE(diary.lines == Lines{"none", "0.1: 12", "0.2: 12", "checkpoint", "0.3: 6", "1.4: 12",
                               "checkpoint", "1.5: 12", "1.6: 6", "checkpoint", "checkpoint"});
  REQUIRE(diary.windows == steps);
  REQUIRE(trainer.windows() == steps);
  REQUIRE(trainer.is_finished());
  REQUIRE(trainer.evaluate(data.test).samples == 10);
  REQUIRE(!trainer.evaluate_average(data.test));
}

TEST_CASE("a run whose graphs are refused says so once and ends with the same bits", "[window]") {
  if (!on_runner()) return;  // only the runner refuses
  const Datasets data = digits();
  Diary recorded, refused;
  Trainer whole(options_of_run(), data.train, test_device());
  whole.run(recorded);
  REQUIRE(recorded.refused_graphs.empty());
  const RefusedRecordings refuse(0, RefusedRecordings::By::end);
  Trainer in_parts(options_of_run(), data.train, test_device());
  in_parts.run(refused);
  REQUIRE(refused.refused_graphs.size() == 1);
  REQUIRE(refused.refused_graphs.front().starts_with("CUDA failed to end recording: "));
  REQUIRE(refused.lines == recorded.lines);
  REQUIRE(weights(in_parts) == weights(whole));
}

TEST_CASE("a run that is stopped and resumed ends with the same bits", "[window]") {
  const Datasets data = digits();
  Diary diary;
  Trainer whole(options_of_run(), data.train, test_device());
  whole.run(diary);

  const TemporaryDirectory folder;
  const TrainingOptions options = options_of_run(folder.path().string());
  {
    Trainer first(options, data.train, test_device());
    Diary until_third;
    first.run(until_third, [&] { return until_third.windows < 3 ? Stop::no : Stop::after_window; });
    REQUIRE(first.windows() == 3);
  }
  {
    // The run stops within the fifth window, which is rolled back. The fourth is saved.
    Trainer second(options, data.train, test_device());
    Diary until_fourth;
    second.resume(until_fourth);
    int micro_batches = 0;
    const auto stop = [&] {
      const bool in_fifth = second.windows() == 4 && ++micro_batches > 2;
      return in_fifth ? Stop::now : Stop::no;
    };
    REQUIRE_THROWS_AS(second.run(until_fourth, stop), Stopped);
    REQUIRE(second.training().window().micro_batches() == 0);
    REQUIRE(until_fourth.lines == Lines{"resumed step-00000003", "1.4: 12", "checkpoint"});
  }
  Trainer last(options, data.train, test_device());
  Diary rest;
  last.resume(rest);
  last.run(rest);
  REQUIRE(rest.lines.front() == "resumed step-00000004");
  REQUIRE(weights(last) == weights(whole));
}

TEST_CASE("a run that is out of time completes its window, and can go on", "[window]") {
  const Datasets data = digits();
  Diary diary;
  Trainer whole(options_of_run(), data.train, test_device());
  whole.run(diary);

  const TemporaryDirectory folder;
  TrainingOptions options = options_of_run(folder.path().string());
  options.max_minutes = 1e-9;
  for (int64_t window = 1; window <= steps; ++window) {
    Trainer part(options, data.train, test_device());
    Diary rest;
    if (window % 2 == 0) part.resume(rest);  // otherwise run() resumes it
    part.run(rest);
    REQUIRE(part.windows() == window);
    REQUIRE(part.is_finished() == (window == steps));
    if (part.is_finished()) REQUIRE(weights(part) == weights(whole));
  }
  options.max_minutes = 1e9;
  Trainer in_time(options_of_run(), data.train, test_device());
  in_time.run(diary);
  REQUIRE(in_time.is_finished());
}

TEST_CASE("an objective of your own is trained, scored, and part of a run's identity", "[window]") {
  const Datasets images = digits();
  const Dataset train = with_brightness(images.train), test = with_brightness(images.test);
  const TemporaryDirectory folder;
  TrainingOptions options = options_of_run(folder.path().string());
  options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25, .classes = 1});
  REQUIRE_ERROR(Trainer(options, train, test_device()), "no labels: expected an objective");
  options.objective = std::make_shared<Brightness>("brightness");
  options.epochs = 20;
  Diary diary;
  {
    Trainer trainer(options, train, test_device());
    const double before = trainer.evaluate(test).loss;
    trainer.run(diary);
    const Score score = trainer.evaluate(test);
    REQUIRE(score.loss < before / 2);
    const Tensor seen = gather(test.to(Device::cpu), 0, test.size())["images"].to(test_device());
    const auto answer = to_doubles(trainer.training().model()(seen, Pass::eval()));
    const auto truth = to_doubles(test["brightness"]);
    double loss = 0;
    for (size_t i = 0; i < truth.size(); ++i)
      loss += (answer[i] - truth[i]) * (answer[i] - truth[i]) / double(truth.size());
    REQUIRE(score.loss == Approx(loss).epsilon(1e-4));
    REQUIRE(score.describe() == fmt::format("loss {:.4f}", score.loss));
  }

  options.objective = std::make_shared<Brightness>("darkness");
  Trainer other(options, train, test_device());
  REQUIRE_ERROR(other.resume(diary), "objective: brightness in the checkpoint, darkness here");
  REQUIRE_ERROR(Trainer(options, images.train, test_device()), "has no brightness");
}

TEST_CASE("what cannot be trained is refused before it starts", "[window]") {
  const Dataset data = digits().train;
  TrainingOptions options = options_of_run();
  options.model = nullptr;
  REQUIRE_ERROR(Trainer(options, data, test_device()), "have no model");
  options = options_of_run();
  options.batches = {.micro = 13, .effective = 12};
  REQUIRE_ERROR(Trainer(options, data, test_device()), "micro-batches of 13 samples");
  options = options_of_run();
  options.strategy = Strategy::step_in_backward;
  REQUIRE_ERROR(Trainer(options, data, test_device()), "expected micro-batches of 12");
  options = options_of_run();
  options.strategy = Strategy::moments;
  options.on_oom = OnOom::split;
  REQUIRE_ERROR(Trainer(options, data, test_device()), "which strategy moments cannot");
}

TEST_CASE("a run that diverges throws its own type of error, and keeps saved files", "[window]") {
  const Dataset data = digits().train;
  TrainingOptions options = options_of_run();
  options.schedule.base = 1e30;
  options.max_skipped = 2;
  Trainer trainer(options, data, test_device());
  Diary diary;
  REQUIRE_THROWS_AS(trainer.run(diary), Divergence);
}

TEST_CASE("every setting of an optimizer changes what it does", "[window]") {
  const Dataset data = digits().train;
  const auto trained = [&](const std::function<void(TrainingOptions&)>& set) {
    TrainingOptions options = options_of_run();
    set(options);
    if (reduced()) options.steps = 3;
    Trainer trainer(options, data, test_device());
    Observer nobody;
    trainer.run(nobody);
    return weights(trainer);
  };
  using Request = TrainingOptions;
  const std::map<OptimizerKind, std::vector<std::function<void(Request&)>>> settings{
      {OptimizerKind::adam,
       {[](Request& o) { o.beta1 = 0.5; }, [](Request& o) { o.beta2 = 0.5; },
        [](Request& o) { o.eps = 0.1; }, [](Request& o) { o.weight_decay = 0.1; },
        [](Request& o) { o.beta2_half_life = 10; }}},
      {OptimizerKind::adamw, {[](Request& o) { o.weight_decay = 0; }}},
      {OptimizerKind::lion,
       {[](Request& o) { o.beta1 = 0.1; }, [](Request& o) { o.beta2 = 0.1; },
        [](Request& o) { o.weight_decay = 0.1; }}},
      {OptimizerKind::sgd,
       {[](Request& o) { o.momentum = 0.5; }, [](Request& o) { o.weight_decay = 0.1; },
        [](Request& o) { o.momentum = 0.9, o.nesterov = true; }}}};
  for (const auto& [kind, changes] : settings) {
    const auto with = [&](const std::function<void(Request&)>& set) {
      return trained([&, kind = kind](Request& o) { o.optimizer = kind, set(o); });
    };
    std::set<std::vector<double>> outcomes{with([](Request&) {})};
    for (size_t i = 0; i < changes.size(); ++i) {
      INFO(name_in(optimizer_names(), kind) << ", setting " << i);
      REQUIRE(outcomes.insert(with(changes[i])).second);
    }
  }
}

TEST_CASE("a run goes on after a score in between", "[window]") {
  const Datasets data = digits();
  Diary diary;
  Trainer whole(options_of_run(), data.train, test_device());
  whole.run(diary);
  Trainer scored(options_of_run(), data.train, test_device());
  Diary first, rest;
  scored.run(first, [&] { return first.windows < 2 ? Stop::no : Stop::after_window; });
  REQUIRE(!scored.is_finished());
  REQUIRE(scored.evaluate(data.test).samples == 10);
  scored.run(rest);
  REQUIRE(first.windows + rest.windows == steps);
  REQUIRE(weights(scored) == weights(whole));
}

}  // namespace accrue::test
