#include "train/game.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/memory_scope.h"
#include "train/window_batch.h"

namespace accrue {
namespace {

// While it lives, the parameters of all players but one are frozen.
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
  std::vector<Variable*> frozen_;  // that were not before
};

// A forward that is to come, as a part of the batch that has been walked, if it has.
Pass joined(Pass pass, WindowPasses* passes) {
  if (!passes) return pass;
  passes->start();
  pass.batch = passes;
  return pass;
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
    check(!player.window_loss || players_.size() == 1,
          "player '{}' has a loss of whole windows beside other players: expected it alone",
          player.name);
    check(!player.keeps_window() || players_.size() == 1,
          "player '{}' keeps whole windows for BatchNorms beside other players: expected it alone, "
          "or batch-norm-by walk",
          player.name);
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

void Game::walk(const MicroBatches& micro_batches, const Pass& pass, const Run& run) {
  const MicroBatch* micro_batch = nullptr;
  for (int64_t i = 0; !(micro_batch && micro_batch->ends_window); ++i) {
    if (!(micro_batch = micro_batches(i))) break;
    Pass own = pass;
    if (micro_batch->indices.defined()) own.samples = micro_batch->indices;
    run(*micro_batch, own);
  }
}

void Game::walk(const Player& player, const MicroBatches& micro_batches, const Pass& pass,
                const Run& run) {
  if (!player.keeps_window()) return walk(micro_batches, pass, run);
  WindowBatch batch(player.window.options().ranks, player.batch_norm_by);
  walk(micro_batches, pass,
       [&](const MicroBatch& micro_batch, const Pass& own) { batch.add(micro_batch, own, run); });
  batch.finish();
}

std::unique_ptr<WindowPasses> Game::rehearse(const Player& player,
                                             const MicroBatches& micro_batches, const Pass& pass,
                                             const Run& begin, const Run& run) {
  if (player.batch_norm == BatchNormOver::micro_batch || player.keeps_window()) return nullptr;
  auto passes = std::make_unique<WindowPasses>(player.window.options().ranks, player.window_passes);
  Pass part = pass;
  part.batch = passes.get();
  do
    walk(micro_batches, part, [&](const MicroBatch& micro_batch, const Pass& own) {
      begin(micro_batch, own);
      passes->rehearse(micro_batch, [&] { run(micro_batch, own); });
    });
  while (!passes->end_walk());
  return passes;
}

void Game::accumulate(const Turn& turn, const MicroBatches& micro_batches, const Pass& pass,
                      std::optional<int64_t> variant) {
  const Player& first = *turn.front();
  if (first.window_loss) see_window(first, micro_batches, pass);
  std::set<const Player*> begun;
  const auto begin = [&](const Player& player, const MicroBatch& micro_batch) {
    if (begun.insert(&player).second) begin_window(player, micro_batch);
  };
  std::map<const Player*, std::unique_ptr<WindowPasses>> passes;
  for (const Player* player : turn)
    passes[player] = rehearse(
        *player, micro_batches, pass,
        [&](const MicroBatch& micro_batch, const Pass&) { begin(*player, micro_batch); },
        [&](const MicroBatch& micro_batch, const Pass& own) {
          const FreezeOthers others(players_, *player);
          player->window.rehearse(loss_of(*player, micro_batch, own));
        });
  walk(first, micro_batches, pass, [&](const MicroBatch& micro_batch, const Pass& own) {
    for (const Player* player : turn) {
      begin(*player, micro_batch);
      // Players that step together are exchanged one after the other.
      if (micro_batch.ends_window && turn.size() == 1) player->window.expect_last();
      add(*player, micro_batch, joined(own, passes[player].get()), variant);
    }
  });
  if (first.window_loss) first.window_loss->finish();
}

WeightedLoss Game::loss_of(const Player& player, const MicroBatch& micro_batch,
                           const Pass& pass) const {
  const MemoryScope scope(Phase::forward, "loss");
  Tensor weight;
  if (player.weight) weight = player.weight(micro_batch);
  Loss loss = player.window_loss ? Loss(player.window_loss->loss(micro_batch, pass))
                                 : player.loss(micro_batch, pass);
  return {std::move(loss), {micro_batch.size(), std::move(weight)}};
}

void Game::add(const Player& player, const MicroBatch& micro_batch, const Pass& pass,
               std::optional<int64_t> variant) const {
  const FreezeOthers others(players_, player);
  Window& window = player.window;
  const auto work = [&] { window.backward(loss_of(player, micro_batch, pass)); };
  const bool sees_one = !player.window_loss && player.batch_norm == BatchNormOver::micro_batch;
  if (variant && window.replays() && sees_one)
    window.micro_step(micro_batch.size(), *variant, work);
  else work();
  for (const Player& other : players_)
    if (&other != &player) other.window.keep_buffers_with(window);
}

void Game::see_window(const Player& player, const MicroBatches& micro_batches,
                      const Pass& pass) const {
  const MemoryScope scope(Phase::forward, "loss of the window");
  WindowLoss& loss = *player.window_loss;
  loss.begin();
  bool has_begun = false;
  const auto begin = [&](const MicroBatch& micro_batch, const Pass&) {
    if (!std::exchange(has_begun, true)) begin_window(player, micro_batch);
  };
  const auto passes = rehearse(
      player, micro_batches, pass, begin,
      [&](const MicroBatch& micro_batch, const Pass& own) { loss.rehearse(micro_batch, own); });
  walk(player, micro_batches, pass, [&](const MicroBatch& micro_batch, const Pass& own) {
    begin(micro_batch, own);
    loss.see(micro_batch, joined(own, passes.get()));
  });
  loss.end();
  player.window.abandon();  // module buffers, which the second walk moves again
}

void Game::begin_window(const Player& player, const MicroBatch& micro_batch) const {
  if (player.window.micro_batches() > 0) return;
  if (micro_batch.window_size > 0) player.window.expect(micro_batch.window_size);
  if (!player.begin) return;
  player.begin();
  for (const Player& other : players_) other.window.keep_buffers();
}

bool Game::plays(const Player& player, const Turn& turn) const {
  return std::ranges::find(turn, &player) != turn.end();
}

void Game::step(const Turn& turn) {
  const MemoryScope scope(Phase::step);  // one, whatever is in it
  if (turn.size() == 1) {
    turn.front()->window.enqueue_step();
  } else {
    std::vector<Window*> windows;
    for (const Player* player : turn) windows.push_back(&player->window);
    Window::enqueue_together(windows);
  }
  // They have seen the samples of those who played.
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

Game::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window) {
  return [&loader, epoch, window](int64_t i) -> const MicroBatch* {
    if (i == 0) loader.start_window(epoch, window);
    return loader.has_share(window) ? loader.next() : nullptr;
  };
}

Game::MicroBatches window_of(std::span<const MicroBatch> parts) {
  return [parts](int64_t i) { return i < std::ssize(parts) ? &parts[size_t(i)] : nullptr; };
}

}  // namespace accrue
