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

// A network with its own loss, which other networks' losses may depend on: a GAN's generator or
// discriminator (Goodfellow et al. 2014, arXiv 1406.2661).
struct Player {
  std::string name;
  // The window over this player's parameters and no others: its optimizer, schedule, clipping, loss
  // scale and counters. Its effective batch counts the samples of a window once, whatever the
  // losses are.
  Window& window;
  // The mean loss over a micro-batch, with further numbers for reports. The other players'
  // parameters are frozen in this forward and its backward: gradients may flow through their
  // networks, but not into their parameters.
  std::function<Loss(const Samples&, const Pass&)> loss{};
  // The player plays only in every `every`-th window: 5 for the generator of a WGAN whose critic
  // plays five times as often.
  int64_t every = 1;
  // The player goes through each of its windows this many times, with a step each time: 2 for a
  // DCGAN's generator that is updated twice. Only for alternating players.
  int64_t times = 1;
  // The names of the loss's further numbers (Loss::terms) in a log.
  std::vector<std::string> terms{};
  // If set, called before the first micro-batch of each of its turns. Its changes to any player's
  // module buffers are undone if the turn is rolled back.
  std::function<void()> begin{};
  // If set, returns the weight of a micro-batch's loss (Weight, accumulate/weighted_loss.h), to use
  // instead of its number of samples; undefined: use that number.
  std::function<Tensor(const Samples&)> weight{};
  // How the player goes through each window; null: micro-batch by micro-batch. Other walks do not
  // use CUDA graphs.
  detail::MakeWalk walk{};

  // A tensor's or counter's name after the player's name: "generator.0.weight". Just `what` if the
  // player has no name.
  std::string named(std::string_view what) const;
};

// When players step.
enum class Order {
  // One player after the other goes through the whole window and steps. So each player sees the
  // updates of those before it.
  alternating,
  // Each micro-batch goes to every player. All losses see the same weights. All players step at the
  // end, or none does if any player's loss or gradient is not finite.
  simultaneous
};

// Players over the same windows of samples. In either order, each player takes the same step as
// with one batch of all samples of a window, whatever the split into micro-batches. With
// alternating players, each player goes through the samples again; so accumulation is exact
// although the others step in between. One network that trains alone is a game with one player.
//
//   Game game({{"discriminator", d_window, d_loss}, {"generator", g_window, g_loss}});
//   for each window:  game.play(window_of(loader, epoch, window));
class Game {
 public:
  // Players that go through a window of samples together and then step: all simultaneous players,
  // or one alternating player.
  using Turn = std::vector<const Player*>;

  // Throws Error without players, for two players with one name or with a common parameter, and for
  // `every` or `times` below 1. Throws Error for a walk that must be alone in its turn, and for
  // simultaneous players that go through a window several times or whose strategy cannot take a
  // window back.
  explicit Game(std::vector<Player> players, Order order = Order::alternating);

  // Plays one window: every player whose turn it is accumulates gradients and steps, like
  // enqueue_step(); its window's reports() tell the outcome of the step. If this throws anything,
  // call abandon() before going on.
  void play(const detail::MicroBatches& micro_batches, const Pass& pass = {});

  // The parts of play(): call accumulate() and step() for each of these turns, then end_window().
  std::vector<Turn> turns() const;
  // The turns of a window in which every player plays.
  std::vector<Turn> all_turns() const;
  // Adds the gradients of a window's micro-batches to the players' windows: the only loop over
  // micro-batches. With a `variant`, Window::micro_step() runs each micro-batch, and the samples
  // must be in the same tensors every time; without one, nothing is recorded. `pass` need not have
  // samples.
  void accumulate(const Turn& turn, const detail::MicroBatches& micro_batches, const Pass& pass,
                  std::optional<int64_t> variant = {});
  // Ends a turn with its players' steps. If these are skipped, the module buffers of all players
  // return to their values before the turn.
  void step(const Turn& turn);
  void end_window() { ++windows_; }

  // Forgets the turn that has not stepped yet: gradients are fresh, and module buffers return to
  // their values before it. Alternating players that have already stepped keep their steps.
  void abandon();

  const std::vector<Player>& players() const { return players_; }
  // The number of windows played, by any player.
  int64_t windows() const { return windows_; }

  // The state that is carried into the next window: every player's state under the player's name
  // ("generator.window.steps"), and with several players the number of windows. See
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

// The micro-batches of a window of a data set, or of `parts`, which exist already. The loader or
// the parts must outlive the result.
detail::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window);
detail::MicroBatches window_of(std::span<const MicroBatch> parts);

}  // namespace accrue
