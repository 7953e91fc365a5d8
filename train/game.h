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
#include "train/window_walk.h"

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
  // How the player goes through each window; null: micro-batch by micro-batch. Other walks take no
  // graphs on cuda.
  detail::MakeWalk walk{};

  // The player's name before one of its tensors or counters: "generator.0.weight". A name alone
  // if the player has none.
  std::string named(std::string_view what) const;
};

// When players step.
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
  // `times` below 1, for a walk that takes its player alone, and for simultaneous players that go
  // through a window several times or whose strategy cannot take a window back.
  explicit Game(std::vector<Player> players, Order order = Order::alternating);

  // Plays one window: every player whose turn it is accumulates it and steps, as enqueue_step()
  // does; its window's reports() say what the step did. If this throws anything, call abandon()
  // before going on.
  void play(const detail::MicroBatches& micro_batches, const Pass& pass = {});

  // The parts of play(): accumulate() and step() for each of these turns, then end_window().
  std::vector<Turn> turns() const;
  // The turns of a window in which every player plays.
  std::vector<Turn> all_turns() const;
  // Adds the gradients of a window's micro-batches to the windows of the players: the one loop over
  // micro-batches. With a `variant`, Window::micro_step() runs each, and the samples must be in the
  // same tensors every time; without one they are not recorded. `pass` need not have samples.
  void accumulate(const Turn& turn, const detail::MicroBatches& micro_batches, const Pass& pass,
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
  struct UnderWay;
  void look_ahead(UnderWay& way, const detail::MicroBatches& micro_batches, const Pass& pass) const;
  void begin(UnderWay& way, const MicroBatch& micro_batch) const;
  void add(UnderWay& way, const MicroBatch& micro_batch, const Pass& pass,
           std::optional<int64_t> variant) const;
  bool plays(const Player& player, const Turn& turn) const;
  std::vector<Turn> turns_of(const Turn& playing) const;

  std::vector<Player> players_;
  Order order_;
  int64_t windows_ = 0;
};

// The micro-batches of a window of a data set, or those that are there already. They must outlive
// the result, as must the loader.
detail::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window);
detail::MicroBatches window_of(std::span<const MicroBatch> parts);

}  // namespace accrue
