#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "optim/window.h"

namespace accrue {

// A network with a loss of its own, beside others whose losses reach it, too: a GAN's generator or
// discriminator (Goodfellow et al. 2014, arXiv 1406.2661).
struct Player {
  std::string name;
  // Over this player's parameters and no other's: its optimizer, schedule, clipping, loss scale and
  // counters. Its effective batch counts the samples of a window once, whatever the losses are.
  Window& window;
  // The mean loss over a micro-batch, with what is reported beside it. The other players'
  // parameters are frozen meanwhile and in backward, so what they compute is differentiated
  // through, or not at all, and costs no gradient.
  std::function<Loss(const Samples&)> loss;
  // Plays in the n-th, 2n-th, ... window only: 5 for the generator of a WGAN whose critic plays
  // five times as often.
  int64_t every = 1;
  // Goes through such a window this many times, with a step each: 2 for the generator of a DCGAN
  // that is updated twice. For alternating players.
  int64_t times = 1;
  // The names, in a log, of the numbers beside its losses (Loss::terms).
  std::vector<std::string> terms{};
  // Called before the first micro-batch of each of its turns, if set. Its changes to the module
  // buffers of any player are taken back with the turn.
  std::function<void()> begin{};

  // The player's name before one of its tensors or counters: "generator.0.weight". A name alone
  // if the player has none.
  std::string named(std::string_view what) const;
};

enum class Order {
  // One player after the other goes through the whole window and steps, so that each sees the
  // networks as those before it have left them.
  alternating,
  // Each micro-batch goes to every player. All losses are of the same weights, and all players step
  // at the end, or none does if the loss or gradient of one is not finite.
  simultaneous
};

// Players over the same windows of samples. However a window is cut into micro-batches, each player
// takes the step of one batch of all its samples, in either order: with alternating players the
// samples come again for each, which is what makes accumulation exact where each player steps
// between the others.
//
//   Game game({{"discriminator", d_window, d_loss}, {"generator", g_window, g_loss}});
//   for each window:  game.play(micro_batches);
//
// which is
//
//   for (const Game::Turn& turn : game.turns()) {
//     for each micro-batch:  game.micro_step(turn, micro_batch);
//     game.step(turn);
//   }
//   game.end_window();
class Game {
 public:
  // Players who go through a window of samples together, then step: all of them if they are
  // simultaneous, one if they alternate.
  using Turn = std::vector<const Player*>;

  // Throws Error without players, for two of one name or with a parameter in common, for `every` or
  // `times` below 1, and for simultaneous players that go through a window several times or whose
  // strategy cannot take a window back.
  explicit Game(std::vector<Player> players, Order order = Order::alternating);

  // Calls its argument with each micro-batch of a window, whenever it is called with the same ones.
  using MicroBatches = std::function<void(const std::function<void(const Samples&)>&)>;

  // One window: every player whose turn it is accumulates it and steps, as enqueue_step() does; its
  // window's reports() say what the step did. If anything throws in here, call abandon() before
  // going on.
  void play(const MicroBatches& micro_batches);

  // The turns of the next window, one after the other, and those of one in which everybody plays.
  std::vector<Turn> turns() const;
  std::vector<Turn> all_turns() const;
  // Adds the gradients of a micro-batch to the players' windows. With a `variant`
  // Window::micro_step() runs it, whose samples are in the same tensors every time; without, it is
  // not recorded.
  void micro_step(const Turn& turn, const Samples& samples, std::optional<int64_t> variant = {});
  // Ends a turn by the steps of its players. If they are skipped, the module buffers of all players
  // are what they were before the turn.
  void step(const Turn& turn);
  void end_window() { ++windows_; }

  // Forgets the turn that has no step yet: gradients fresh, module buffers as they were before it.
  // Of alternating players, those that have stepped have stepped.
  void abandon();

  const std::vector<Player>& players() const { return players_; }
  // Windows played, whoever's turn it was.
  int64_t windows() const { return windows_; }

  // The state that is carried into the next window: every player's, under its name
  // ("generator.window.steps"), and of several players how many windows there were. As
  // Window::state_dict().
  StateDict state_dict();
  // Call this after overwriting that, parameters or module buffers.
  void restored();

 private:
  bool plays(const Player& player, const Turn& turn) const;
  std::vector<Turn> turns_of(const Turn& playing) const;

  std::vector<Player> players_;
  Order order_;
  int64_t windows_ = 0;
};

// A window of a data set. The loader must outlive it.
Game::MicroBatches window_of(Loader& loader, int64_t epoch, int64_t window);

}  // namespace accrue
