// Networks that train each other, run by the trainer: it must play like Game, whatever happens in a
// run. tests/train/game.cpp compares Game with PyTorch.

#include <limits>
#include <set>

#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/losses.h"
#include "layers/layers.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/training_state.h"
#include "train/plan.h"
#include "train/player_options.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

// Windows of 6, 6 and 5 samples in micro-batches of 4 and, halved, of 2.
namespace sizes {
constexpr int64_t samples = 17, effective = 6, micro = 4, half = 2, windows_per_epoch = 3,
                  epochs = 2;
}

Tensor random_images(uint64_t stream) {
  RandomStream random(stream);
  std::vector<float> values(size_t(sizes::samples * 4 * 4));
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
  return Tensor::from(values, {sizes::samples, 1, 4, 4}, test_device());
}

Dataset sketches() {
  return {"sketches",
          "train",
          {{"sketches", random_images(1), Encoding::number},
           {"drawings", random_images(2), Encoding::number}}};
}

struct Drawing : Objective {
  std::string name() const override { return "drawing"; }
  std::string input() const override { return "sketches"; }
  std::vector<std::string> targets() const override { return {"drawings"}; }
  Tensor loss(const Tensor& answer, const Samples& s) const override {
    return mse_loss(answer, s["drawings"]);
  }
};

std::unique_ptr<Layer> make_artist() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1});
  model->add<BatchNorm>(4);
  model->add<Relu>();
  model->add<Dropout>(0.2);
  model->add<Conv2d>(4, 1, 3, Conv2dShape{.padding = 1});
  return model;
}

std::unique_ptr<Layer> make_critic() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 3, 3, Conv2dShape{.padding = 1});
  model->add<BatchNorm>(3);
  model->add<Relu>();
  model->add<Flatten>();
  model->add<Linear>(3 * 4 * 4, 1);
  return model;
}

Tensor verdict(const Networks& networks, const Tensor& drawings, double truth, const Pass& pass) {
  const Tensor logits = networks["critic"](drawings, pass);
  return bce_with_logits(
      logits, Tensor::full(logits.shape(), truth, logits.dtype(), logits.device(), Category::data));
}
Tensor critic_loss(const Networks& networks, const Samples& s, const Pass& pass) {
  return add(verdict(networks, s["drawings"], 1, pass),
             verdict(networks, networks["artist"](s["sketches"], pass), 0, pass));
}
Tensor artist_loss(const Networks& networks, const Samples& s, const Pass& pass) {
  const Tensor drawn = networks["artist"](s["sketches"], pass);
  return add(verdict(networks, drawn, 1, pass), scale(mse_loss(drawn, s["drawings"]), 3));
}

TrainingOptions game_options(Order order = Order::alternating, int64_t every = 1,
                             int64_t times = 1) {
  TrainingOptions options;
  options.players = {{.name = "critic", .model = make_critic, .loss = critic_loss},
                     {.name = "artist",
                      .model = make_artist,
                      .loss = artist_loss,
                      .every = every,
                      .times = times}};
  options.players[0].step.schedule.base = 2e-2;
  options.players[1].step.schedule = {.kind = ScheduleOptions::Kind::cosine, .base = 1e-2};
  options.players[1].step.optimizer = OptimizerKind::lion;
  options.objective = std::make_shared<Drawing>();
  options.order = order;
  options.batches = {sizes::micro, sizes::effective};
  options.epochs = sizes::epochs;
  return options;
}

std::vector<TrainingOptions> games() {
  const std::vector<TrainingOptions> all{
      game_options(Order::alternating, 2), game_options(Order::simultaneous, 3), game_options(),
      game_options(Order::alternating, 1, 2), game_options(Order::simultaneous)};
  // Each takes a minute on the runner under the sanitizers.
  if (on_runner() && sanitized()) return {all[0], all[1]};
  return all;
}

std::string name_of(const TrainingOptions& options) {
  return fmt::format("{} {} {}", options.order == Order::simultaneous, options.players[1].every,
                     options.players[1].times);
}

// The final state of a run by hand. Its micro-batches are whole before turn `change`, counted over
// all windows, and halved from there on.
TrainingState by_hand(TrainingOptions options, size_t change = std::numeric_limits<size_t>::max()) {
  options.cuda_graphs = Graphs::off;
  const Dataset data = sketches();
  Training training(options, data, test_device());
  size_t turns = 0;
  for (int64_t w = 0; w < sizes::epochs * sizes::windows_per_epoch; ++w) {
    const int64_t epoch = w / sizes::windows_per_epoch;
    for (const Game::Turn& turn : training.game().turns()) {
      Loader loader(data, {.effective_batch_size = sizes::effective,
                           .micro_batch_size = turns++ < change ? sizes::micro : sizes::half,
                           .seed = options.seed,
                           .device = test_device()});
      loader.start_epoch(epoch, w % sizes::windows_per_epoch);
      for (bool ended = false; !ended;) {
        const MicroBatch* part = loader.next();
        training.micro_step(turn, *part, epoch);
        ended = part->ends_window;
      }
      training.game().step(turn);
    }
    training.game().end_window();
    for (const Player& player : training.game().players())
      for (const StepReport& report : player.window.reports(Window::Wait::yes))
        REQUIRE_FALSE(report.skipped);
  }
  return state_of_training(training);
}

// Accumulates a window of the first epoch.
void accumulate(Training& training, const Game::Turn& turn, int64_t window) {
  training.game().accumulate(turn, window_of(training.loader(), 0, window), training.pass(0),
                             training.variant(0));
}

struct PlayersDiary : Observer {
  void on_step(const WindowReport& r) override {
    lines.push_back(fmt::format("{} {}: {}", r.window, r.player, r.step));
    skipped += r.skipped;
  }
  void on_halving(const Halving& halving) override { halvings.push_back(halving); }
  std::vector<std::string> lines;
  std::vector<Halving> halvings;
  int64_t skipped = 0;
};

}  // namespace

TEST_CASE("the trainer plays games in the same way as a loop by hand", "[game]") {
  for (const TrainingOptions& options : games()) {
    INFO(name_of(options));
    Trainer trainer(options, sketches(), test_device());
    PlayersDiary diary;
    trainer.run(diary);
    REQUIRE(state_of_training(trainer.training()) == by_hand(options));
    REQUIRE(state_of_training(trainer.training()) != by_hand(options, 1));
  }
}

TEST_CASE("players report their own windows", "[game]") {
  Trainer alternating(game_options(Order::alternating, 2, 2), sketches(), test_device());
  PlayersDiary diary;
  alternating.run(diary);
  const std::multiset<std::string> seen(diary.lines.begin(), diary.lines.end()),
      expected{"0 critic: 1", "1 critic: 2", "1 artist: 1", "1 artist: 2",
               "2 critic: 3", "3 critic: 4", "3 artist: 3", "3 artist: 4",
               "4 critic: 5", "5 critic: 6", "5 artist: 5", "5 artist: 6"};
  REQUIRE(seen == expected);
  REQUIRE(alternating.is_finished());
  REQUIRE(alternating.total_steps() == 6);
  // The cosine schedule ends with the artist's steps.
  REQUIRE(alternating.training().window().schedule().lr(6) == 0);
  REQUIRE(alternating.evaluate(sketches()).samples == sizes::samples);
}

TEST_CASE("a game is stopped and resumed with the same bits", "[game]") {
  for (TrainingOptions options : games()) {
    INFO(name_of(options));
    const TemporaryDirectory folder;
    options.checkpoints = {.directory = folder.path().string(), .every = 1, .resume = true};
    PlayersDiary diary;
    for (const int64_t until : {1, 4, 6}) {
      Trainer trainer(options, sketches(), test_device());
      trainer.resume(diary);
      trainer.run(diary,
                  [&] { return trainer.windows() >= until ? Stop::after_window : Stop::no; });
      REQUIRE(trainer.windows() == until);
      if (trainer.is_finished()) REQUIRE(state_of_training(trainer.training()) == by_hand(options));
    }
    REQUIRE(std::set(diary.lines.begin(), diary.lines.end()).size() == diary.lines.size());

    const auto refused = [&](auto&& change, const std::string& difference) {
      TrainingOptions other = options;
      change(other);
      Trainer trainer(other, sketches(), test_device());
      REQUIRE_THROWS_WITH(trainer.resume(diary), ContainsSubstring(difference));
    };
    refused([](auto& o) { o.players[1].step.schedule.base = 3; }, "artist.lr: 0.01 in the checkp");
    refused([](auto& o) { o.players[0].every = 2, o.players[1].every = 1; }, "critic: every 1");
  }
}

// The last turn of the second window fails. If players alternate, one of them has stepped before
// it.
TEST_CASE("a turn that runs out of memory is run again in halves", "[game][oom]") {
  for (const Order order : {Order::alternating, Order::simultaneous}) {
    TrainingOptions options = game_options(order);
    options.on_oom = OnOom::split;
    options.cuda_graphs = Graphs::off;  // replayed work allocates nothing
    const Dataset data = sketches();
    const size_t turns = order == Order::alternating ? 2 : 1, failing = 2 * turns - 1;
    const auto run_failing_at = [&](int64_t allocation, bool& happened) {
      const AllocationFailure failure(allocation);
      Trainer trainer(options, data, test_device());
      PlayersDiary diary;
      trainer.run(diary);
      happened = failure.happened();
      if (happened) REQUIRE(diary.halvings.size() == 1);
      return std::pair(state_of_training(trainer.training()), diary.halvings);
    };
    // The numbers of allocations up to each turn, and within the turn that must fail.
    std::vector<int64_t> before;
    {
      const int64_t start = allocations();
      Training training(options, data, test_device());
      for (int64_t w = 0; w < 2; ++w)
        for (const Game::Turn& turn : training.game().turns()) {
          before.push_back(allocations() - start);
          accumulate(training, turn, w);
          training.game().step(turn);
        }
      before.push_back(allocations() - start);
    }
    const TrainingState expected = by_hand(options, failing);
    const int64_t begin = before[failing], end = before[failing + 1];
    REQUIRE(end - begin > 20);
    for (int64_t allocation = begin + 1; allocation <= end;
         allocation += (end - begin) / (on_runner() ? 2 : 7)) {
      INFO(allocation);
      bool happened = false;
      const auto [state, halvings] = run_failing_at(allocation, happened);
      REQUIRE(happened);
      REQUIRE(halvings[0].window == 1);
      REQUIRE(state == expected);
    }
    REQUIRE(expected != by_hand(options, failing + 1));
  }
}

// A player's loss may run other players' networks, and so change their BatchNorms' statistics.
TEST_CASE("a skipped turn leaves no trace in the other players' networks", "[game]") {
  for (const Order order : {Order::alternating, Order::simultaneous}) {
    TrainingOptions options = game_options(order);
    options.players[0].loss = [](const Networks& networks, const Samples& s, const Pass& pass) {
      return scale(critic_loss(networks, s, pass), std::numeric_limits<double>::infinity());
    };
    const Dataset data = sketches();
    Training training(options, data, test_device());
    const TrainingState before = state_of_training(training);
    for (const Game::Turn& turn : training.game().turns()) {
      accumulate(training, turn, 0);
      training.game().step(turn);
      for (const Player* player : turn)
        REQUIRE(player->window.reports(Window::Wait::yes).front().skipped);
      REQUIRE(state_of_training(training) == before);
      break;  // the critic's turn, or the turn of both
    }
    options.max_skipped = 3;
    Trainer trainer(options, data, test_device());
    PlayersDiary diary;
    REQUIRE_THROWS_WITH(trainer.run(diary),
                        ContainsSubstring("critic's loss or its gradient was not finite in 3"));
  }
}

TEST_CASE("the memory of a game is predicted to the byte, and planned", "[game][plan]") {
  for (TrainingOptions options : games()) {
    INFO(name_of(options));
    const Dataset data = sketches(), test = sketches();
    for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
      options.strategy = strategy;
      Trainer trainer(options, data, test_device());
      PlayersDiary diary;
      trainer.run(diary);
      const Usage peak = ledger(test_device()).peak();
      REQUIRE(predict_peak(options, {data, test}, test_device()).bytes == peak.bytes);
    }
    options.strategy = Strategy::fused;
    const Datasets planned = plan_data({data, test}, test_device());
    const size_t at_once = [&] {
      TrainingOptions whole = options;
      whole.batches.micro = sizes::effective;
      return planned_peak(whole, planned.train, test_device()).total();
    }();
    const Plan plan =
        plan_windows(options, planned, test_device(), at_once - 1, only_choice(options));
    REQUIRE(plan.recommended() != nullptr);
    REQUIRE(plan.recommended()->batches.micro < sizes::effective);
    REQUIRE(plan.recommended()->relative_cost > 1);
  }
}

TEST_CASE("a game's log has a line for each player, and is cut back to a window", "[game]") {
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "log").string();
  const TrainingOptions options = game_options(Order::alternating, 2);
  {
    Trainer trainer(options, sketches(), test_device());
    RunLog log({.json = path}, options, trainer.training());
    trainer.run(log);
  }
  const auto lines = json_steps(path);
  REQUIRE(lines.size() == 6 + 3);
  REQUIRE(std::ranges::count(lines, "artist", [](const auto& l) { return l["player"]; }) == 3);
  // The order holds on any device, whenever it reports a step.
  const auto place = [](const auto& line) {
    return std::pair(line["window"].template get<int64_t>(), line["player"] == "artist");
  };
  REQUIRE(std::ranges::is_sorted(lines, {}, place));
  REQUIRE(keep_logged_windows(path, 4) == 4);
  REQUIRE(json_steps(path).size() == 4 + 2);
  REQUIRE(keep_logged_windows(path, 5) == 4);
}

TEST_CASE("the players of a training are checked", "[game]") {
  const auto refused = [](auto&& change) {
    TrainingOptions options = game_options();
    change(options);
    Trainer trainer(options, sketches(), test_device());
    PlayersDiary diary;
    trainer.run(diary);
  };
  REQUIRE_THROWS_WITH(refused([](auto& o) { o.model = make_artist; }),
                      "the options of a training have a model and 2 players: expected one or the "
                      "other");
  REQUIRE_THROWS_WITH(refused([](auto& o) { o.players[1].loss = nullptr; }),
                      "player 'artist' has no loss: expected a function that returns a loss");
  REQUIRE_THROWS_WITH(refused([](auto& o) { o.players[0].every = o.players[1].every = 2; }),
                      "every player sits windows out: expected one that plays in each");
  REQUIRE_THROWS_WITH(refused([](auto& o) { o.players[0].name = "judge"; }),
                      "there is no network 'critic': expected one of 'judge' 'artist'");
}

}  // namespace accrue::test
