#include "train/game.h"

#include <algorithm>
#include <set>

namespace accrue {
namespace {

// While it lives, the parameters of all players but one are frozen.
class FreezeOthers {
 public:
  FreezeOthers(const std::vector<Player>& players, const Player& but) {
    for (const Player& player : players) {
      if (&player == &but) continue;
      for (const Parameters* parameters : player.window.parameters())
        for (const Parameters::Entry& entry : parameters->entries())
          if (!std::exchange(entry.tensor.variable()->frozen, true))
            frozen_.push_back(entry.tensor.variable().get());
    }
  }
  ~FreezeOthers() {
    for (Variable* variable : frozen_) variable->frozen = false;
  }
  FreezeOthers(const FreezeOthers&) = delete;
  FreezeOthers& operator=(const FreezeOthers&) = delete;

 private:
  std::vector<Variable*> frozen_;  // that were not before
};

}  // namespace

Game::Game(std::vector<Player> players, Order order) : players_(std::move(players)), order_(order) {
  check(!players_.empty(), "a game without players: expected one or more");
  std::set<std::string> names;
  std::set<const Parameters*> owned;
  for (const Player& player : players_) {
    check(names.insert(player.name).second,
          "two players are called '{}': expected names that differ", player.name);
    check(player.every >= 1, "player '{}' plays every {} windows: expected 1 or more", player.name,
          player.every);
    check(player.times >= 1, "player '{}' goes {} times through a window: expected 1 or more",
          player.name, player.times);
    check(
        order == Order::alternating || player.times == 1,
        "player '{}' goes {} times through a window, but simultaneous players step once, together: "
        "expected 1, or alternating players",
        player.name, player.times);
    check(order == Order::alternating || player.window.can_abandon(),
          "player '{}' uses a strategy that cannot take a window back, but simultaneous players "
          "step together or not at all: expected fused or separate",
          player.name);
    for (const Parameters* parameters : player.window.parameters())
      check(owned.insert(parameters).second,
            "player '{}' has parameters that another player has, too: expected each player's own",
            player.name);
  }
}

void Game::play(const MicroBatches& micro_batches) {
  std::vector<const Player*> playing;
  for (const Player& player : players_)
    if ((windows_ + 1) % player.every == 0) playing.push_back(&player);

  if (order_ == Order::alternating) {
    for (const Player* player : playing)
      for (int64_t time = 0; time < player->times; ++time) {
        micro_batches([&](const Samples& samples) { micro_step(*player, samples); });
        player->window.enqueue_step();
      }
  } else if (!playing.empty()) {
    micro_batches([&](const Samples& samples) {
      for (const Player* player : playing) micro_step(*player, samples);
    });
    std::vector<Window*> windows;
    for (const Player* player : playing) windows.push_back(&player->window);
    Window::enqueue_together(windows);
  }
  ++windows_;
}

void Game::micro_step(const Player& player, const Samples& samples) {
  const FreezeOthers others(players_, player);
  player.window.backward(player.loss(samples), samples.size());
}

void Game::abandon() {
  for (const Player& player : players_) player.window.abandon();
}

void Game::restored() {
  for (const Player& player : players_) player.window.restored();
}

StateDict Game::state_dict() {
  StateDict dict{.tensors = {}, .numbers = {{"game.windows", &windows_}}};
  for (const Player& player : players_) {
    StateDict own = player.window.state_dict();
    for (auto& [name, tensor] : own.tensors)
      dict.tensors.emplace_back(player.name + "." + name, tensor);
    for (auto& [name, number] : own.numbers)
      dict.numbers.emplace_back(player.name + "." + name, number);
  }
  return dict;
}

Game::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window) {
  return [&loader, epoch, window](const std::function<void(const Samples&)>& visit) {
    loader.start_epoch(epoch, window);
    while (const MicroBatch* micro_batch = loader.next()) {
      visit(*micro_batch);
      if (micro_batch->ends_window) return;
    }
  };
}

}  // namespace accrue
