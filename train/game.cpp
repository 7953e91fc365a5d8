#include "train/game.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/inside.h"
#include "core/memory_scope.h"

namespace accrue {
namespace {

// Freezes the parameters of all players but one while it lives.
class FreezeOthers {
 public:
  FreezeOthers(const std::vector<Player>& players, const Player& but) {
    for (const Player& player : players) {
      if (&player == &but) continue;
      for (const Parameters::Entry& entry : player.window.parameters().entries())
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
  std::vector<Variable*> frozen_;  // that were not frozen before
};

// Goes through the micro-batches of a window.
class WindowReader {
 public:
  WindowReader(const MicroBatches& window, const Pass& pass) : window_(window), pass_(pass) {}

  // The next micro-batch; null after the last.
  const MicroBatch* next() {
    if (now_ && now_->ends_window) return nullptr;
    return now_ = window_(i_++);
  }
  // The pass, with the indices of the current samples.
  Pass pass() const {
    Pass own = pass_;
    if (now_->indices.defined()) own.samples = now_->indices;
    return own;
  }

 private:
  const MicroBatches& window_;
  const Pass& pass_;
  const MicroBatch* now_ = nullptr;
  int64_t i_ = 0;
};

WeightedLoss loss_of(const Player& player, const MicroBatch& micro_batch, const Pass& pass) {
  const MemoryScope scope(Phase::forward, "loss");
  Tensor weight;
  if (player.weight) weight = player.weight(micro_batch);
  return {player.loss(micro_batch, pass), {micro_batch.size(), std::move(weight)}};
}

}  // namespace

std::string Player::named(std::string_view what) const {
  return name.empty() ? std::string(what) : fmt::format("{}.{}", name, what);
}

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
    const std::string why_alone = player.walk ? player.walk()->why_alone() : "";
    check(why_alone.empty() || players_.size() == 1, "player '{}' {}", player.name, why_alone);
    check(owned.insert(&player.window.parameters()).second,
          "player '{}' has parameters that another player has, too: expected each player's own",
          player.name);
  }
}

void Game::play(const MicroBatches& micro_batches, const Pass& pass) {
  for (const Turn& turn : turns()) {
    accumulate(turn, micro_batches, pass);
    step(turn);
  }
  end_window();
}

std::vector<Game::Turn> Game::turns() const {
  Turn playing;
  for (const Player& player : players_)
    if ((windows_ + 1) % player.every == 0) playing.push_back(&player);
  return turns_of(playing);
}

std::vector<Game::Turn> Game::all_turns() const {
  Turn playing;
  for (const Player& player : players_) playing.push_back(&player);
  return turns_of(playing);
}

std::vector<Game::Turn> Game::turns_of(const Turn& playing) const {
  if (playing.empty()) return {};
  if (order_ == Order::simultaneous) return {playing};
  std::vector<Turn> turns;
  for (const Player* player : playing) turns.insert(turns.end(), size_t(player->times), {player});
  return turns;
}

// A player's progress through a window. It begins with the first micro-batch, for any walk.
struct Game::UnderWay {
  const Player& player;
  std::unique_ptr<WindowWalk> walk = player.walk ? player.walk() : nullptr;
  bool has_begun = false;
};

void Game::accumulate(const Turn& turn, const MicroBatches& micro_batches, const Pass& pass,
                      std::optional<int64_t> variant) {
  std::vector<UnderWay> ways;
  for (const Player* player : turn) ways.push_back({*player});
  for (UnderWay& way : ways) look_ahead(way, micro_batches, pass);
  WindowReader reader(micro_batches, pass);
  while (const MicroBatch* micro_batch = reader.next()) {
    // The gradients of players that step together are exchanged one player after the other.
    if (micro_batch->ends_window && ways.size() == 1) turn.front()->window.expect_last();
    for (UnderWay& way : ways) add(way, *micro_batch, reader.pass(), variant);
  }
  for (UnderWay& way : ways)
    if (way.walk) way.walk->finish();
}

void Game::look_ahead(UnderWay& way, const MicroBatches& micro_batches, const Pass& pass) const {
  if (!way.walk) return;
  const Player& player = way.player;
  way.walk->look_ahead({.walk =
                            [&](const MicroBatchWork& work) {
                              WindowReader reader(micro_batches, pass);
                              while (const MicroBatch* micro_batch = reader.next()) {
                                begin(way, *micro_batch);
                                work(*micro_batch, reader.pass());
                              }
                            },
                        .rehearse =
                            [&](const MicroBatch& micro_batch, const Pass& own) {
                              const FreezeOthers others(players_, player);
                              player.window.rehearse(loss_of(player, micro_batch, own));
                            },
                        .forget =
                            [&] {
                              player.window.abandon();
                              way.has_begun = false;
                            }});
}

void Game::begin(UnderWay& way, const MicroBatch& micro_batch) const {
  const Player& player = way.player;
  if (std::exchange(way.has_begun, true) || player.window.micro_batches() > 0) return;
  if (micro_batch.window_size > 0) player.window.expect(micro_batch.window_size);
  if (!player.begin) return;
  player.begin();
  for (const Player& other : players_) other.window.keep_buffers();
}

void Game::add(UnderWay& way, const MicroBatch& micro_batch, const Pass& pass,
               std::optional<int64_t> variant) const {
  const Player& player = way.player;
  Window& window = player.window;
  begin(way, micro_batch);
  const FreezeOthers others(players_, player);
  if (way.walk)
    way.walk->run(micro_batch, pass, [&player](const MicroBatch& part, const Pass& own) {
      player.window.backward(loss_of(player, part, own));
    });
  else if (variant && window.replays())
    window.micro_step(micro_batch.size(), *variant,
                      [&] { window.backward(loss_of(player, micro_batch, pass)); });
  else window.backward(loss_of(player, micro_batch, pass));
  for (const Player& other : players_)
    if (&other != &player) other.window.keep_buffers_with(window);
}

bool Game::plays(const Player& player, const Turn& turn) const {
  return std::ranges::find(turn, &player) != turn.end();
}

void Game::step(const Turn& turn) {
  const MemoryScope scope(Phase::step);  // one scope for everything inside
  if (turn.size() == 1) {
    turn.front()->window.enqueue_step();
  } else {
    std::vector<Window*> windows;
    for (const Player* player : turn) windows.push_back(&player->window);
    Window::enqueue_together(windows);
  }
  // The other players' networks have seen the samples of those who played.
  for (const Player& other : players_)
    if (!plays(other, turn)) other.window.settle_buffers_with(turn.front()->window);
}

void Game::abandon() {
  for (const Player& player : players_) player.window.abandon();
}

void Game::restored() {
  for (const Player& player : players_) player.window.restored();
}

StateDict Game::state_dict() {
  StateDict dict;
  if (players_.size() > 1) dict.numbers.emplace_back("game.windows", &windows_);
  for (const Player& player : players_) {
    StateDict own = player.window.state_dict();
    for (auto& [name, tensor] : own.tensors) dict.tensors.emplace_back(player.named(name), tensor);
    for (auto& [name, number] : own.numbers) dict.numbers.emplace_back(player.named(name), number);
    for (auto& [name, elements] : own.sharded) dict.sharded[player.named(name)] = elements;
  }
  return dict;
}

MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window) {
  return [&loader, epoch, window](int64_t i) -> const MicroBatch* {
    if (i == 0) loader.start_window(epoch, window);
    return loader.has_share(window) ? loader.next() : nullptr;
  };
}

MicroBatches window_of(std::span<const MicroBatch> parts) {
  return [parts](int64_t i) { return i < std::ssize(parts) ? &parts[size_t(i)] : nullptr; };
}

}  // namespace accrue
