#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accumulate/window.h"
#include "data/loader.h"
#include "layers/module.h"
#include "train/batches.h"
#include "train/window_loss.h"
#include "train/window_passes.h"

namespace accrue {

// A network with a loss of its own, which the losses of other networks also reach: a GAN's
// generator or discriminator (Goodfellow et al. 2014, arXiv 1406.2661).
struct Player {
  std::string name;
  // Over this player's parameters and no other's: its optimizer, schedule, clipping, loss scale and
  // counters. Its effective batch counts the samples of a window once, whatever the losses are.
  Window& window;
  // The mean loss over a micro-batch, with the numbers to report beside it. The other players'
  // parameters are frozen meanwhile and in backward: gradients flow through what they compute, if
  // at all, but not into their parameters.
  std::function<Loss(const Samples&, const Pass&)> loss{};
  // With n = every, the player plays only in the n-th, 2n-th, ... window: 5 for the generator of a
  // WGAN whose critic plays five times as often.
  int64_t every = 1;
  // The player goes through such a window this many times, with a step each: 2 for the generator of
  // a DCGAN that is updated twice. For alternating players.
  int64_t times = 1;
  // The names, in a log, of the numbers beside its losses (Loss::terms).
  std::vector<std::string> terms{};
  // Called before the first micro-batch of each of its turns, if set. Its changes to the module
  // buffers of any player are taken back with the turn.
  std::function<void()> begin{};
  // How much the loss of a micro-batch counts, if set and defined, instead of its samples (Weight,
  // accumulate/window.h).
  std::function<Tensor(const Samples&)> weight{};
  // In place of `loss`, one of the whole window, which the player goes through twice. For a player
  // that is alone, without graphs on cuda.
  std::shared_ptr<WindowLoss> window_loss{};
  // Without graphs on cuda: window. Unless it is walked, for a player that is alone, with strategy
  // fused.
  BatchNormOver batch_norm = BatchNormOver::micro_batch;
  BatchNormBy batch_norm_by = BatchNormBy::keep;
  // With walk, at most so many passes through the window beside the one that is always taken.
  int64_t window_passes = few_window_passes;

  bool keeps_window() const { return accrue::keeps_window(batch_norm, batch_norm_by); }
  // The player's name before one of its tensors or counters: "generator.0.weight". A name alone
  // if the player has none.
  std::string named(std::string_view what) const;
};

enum class Order {
  // One player after the other goes through the whole window and steps, so that each sees the
  // networks as those before it have left them.
  alternating,
  // Each micro-batch goes to every player. All losses use the same weights. All players step at the
  // end, or none does if the loss or gradient of one is not finite.
  simultaneous
};

// Players over the same windows of samples. However a window is cut into micro-batches, each player
// takes the step of one batch of all its samples, in either order. With alternating players the
// samples come again for each player; that makes accumulation exact although the others step in
// between. One network that trains alone is a game of one player.
//
//   Game game({{"discriminator", d_window, d_loss}, {"generator", g_window, g_loss}});
//   for each window:  game.play(window_of(loader, epoch, window));
class Game {
 public:
  // Players that go through a window of samples together and then step: all of them if they are
  // simultaneous, one if they alternate.
  using Turn = std::vector<const Player*>;

  // Throws Error without players, for two of one name or with a parameter in common, for `every` or
  // `times` below 1, and for simultaneous players that go through a window several times or whose
  // strategy cannot take a window back.
  explicit Game(std::vector<Player> players, Order order = Order::alternating);

  // The i-th micro-batch of a window, counted from 0. The last one says so (ends_window), or null
  // follows it. Each turn asks for the same ones.
  using MicroBatches = std::function<const MicroBatch*(int64_t i)>;

  // Plays one window: every player whose turn it is accumulates it and steps, as enqueue_step()
  // does; its window's reports() say what the step did. If this throws anything, call abandon()
  // before going on.
  void play(const MicroBatches& micro_batches, const Pass& pass = {});

  // The parts of play(): accumulate() and step() for each of these turns, then end_window().
  std::vector<Turn> turns() const;
  // The turns of a window in which every player plays.
  std::vector<Turn> all_turns() const;
  // Adds the gradients of a window's micro-batches to the windows of the players: the one loop over
  // micro-batches. With a `variant`, Window::micro_step() runs each, and the samples must be in the
  // same tensors every time; without one they are not recorded. `pass` need not have samples.
  void accumulate(const Turn& turn, const MicroBatches& micro_batches, const Pass& pass,
                  std::optional<int64_t> variant = {});
  // Ends a turn with the steps of its players. If they are skipped, the module buffers of all
  // players return to their values before the turn.
  void step(const Turn& turn);
  void end_window() { ++windows_; }

  // Forgets the turn that has no step yet: gradients are fresh, module buffers as they were before
  // it. The steps of alternating players that have stepped already remain.
  void abandon();

  const std::vector<Player>& players() const { return players_; }
  // The number of windows played, whoever's turn it was.
  int64_t windows() const { return windows_; }

  // The state that is carried into the next window: every player's, under its name
  // ("generator.window.steps"), and of several players how many windows there were. As
  // Window::state_dict().
  StateDict state_dict();
  // Call this after overwriting that state, parameters or module buffers.
  void restored();

 private:
  // Runs each micro-batch of a window, one after the other or, if the player wants it, all as one
  // batch.
  using Run = std::function<void(const MicroBatch& micro_batch, const Pass& pass)>;
  static void walk(const MicroBatches& micro_batches, const Pass& pass, const Run& run);
  static void walk(const Player& player, const MicroBatches& micro_batches, const Pass& pass,
                   const Run& run);
  // Walks as often as BatchNorms need it that keep nothing of the window. Null if there are none.
  static std::unique_ptr<WindowPasses> rehearse(const Player& player,
                                                const MicroBatches& micro_batches, const Pass& pass,
                                                const Run& begin, const Run& run);
  void see_window(const Player& player, const MicroBatches& micro_batches, const Pass& pass) const;
  WeightedLoss loss_of(const Player& player, const MicroBatch& micro_batch, const Pass& pass) const;
  void add(const Player& player, const MicroBatch& micro_batch, const Pass& pass,
           std::optional<int64_t> variant) const;
  void begin_window(const Player& player, const MicroBatch& micro_batch) const;
  bool plays(const Player& player, const Turn& turn) const;
  std::vector<Turn> turns_of(const Turn& playing) const;

  std::vector<Player> players_;
  Order order_;
  int64_t windows_ = 0;
};

// The micro-batches of a window of a data set, or those that are there already. They must outlive
// the result, as must the loader.
Game::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window);
Game::MicroBatches window_of(std::span<const MicroBatch> parts);

}  // namespace accrue
