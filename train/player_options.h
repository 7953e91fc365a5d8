#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/module.h"
#include "train/game.h"
#include "train/objective.h"
#include "train/step_options.h"

namespace accrue {

// The networks of a training by their names.
class Networks {
 public:
  void add(std::string name, const Layer& network) { all_.emplace_back(std::move(name), &network); }
  // Throws Error if there is none of this name.
  const Layer& operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string, const Layer*>> all_;
};

// One of the networks of a training, such as a GAN's generator or discriminator (train/game.h).
struct PlayerOptions {
  std::string name;
  ModelFactory model;  // called anew for every prediction of memory
  // The mean loss over a micro-batch, from the networks' answers in this pass. It is also called on
  // meta devices, and on cuda it is recorded and replayed, so it must not read the values of a
  // tensor.
  std::function<Loss(const Networks&, const Samples&, const Pass&)> loss;
  // In place of the loss, one of a whole window (train/window_loss.h), as the objective has it.
  ObjectivePtr of_window{};
  StepOptions step{};
  // As in Player.
  int64_t every = 1, times = 1;
  std::vector<std::string> terms{};  // of Player
  // As in Player, with the networks and windows of all players. Like the loss, it must not read the
  // values of a tensor.
  std::function<void(const Networks&, const Game&)> begin{};
  std::function<Tensor(const Samples&)> weight{};  // of Player
};

namespace detail {

// What is trained, and for what: one network with the objective's loss, or several that train each
// other, each with a loss and StepOptions of its own. The objective scores the answers of the one,
// or of the last.
struct Task {
  ModelFactory model{};      // called anew for every prediction of memory; null with players
  ObjectivePtr objective{};  // if null, the data set's (objective_of()) is used
  std::vector<PlayerOptions> players{};
};

}  // namespace detail

}  // namespace accrue
