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

// The networks of a training, by name.
class Networks {
 public:
  void add(std::string name, const Layer& network) { all_.emplace_back(std::move(name), &network); }
  // Throws Error if there is no network of this name.
  const Layer& operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string, const Layer*>> all_;
};

// One of the networks of a training, such as a GAN's generator or discriminator (train/game.h).
struct PlayerOptions {
  std::string name;
  ModelFactory model;  // called again for every prediction of memory
  // The mean loss over a micro-batch, from the networks' answers in this pass. It is also called on
  // meta devices, and on cuda it is recorded and replayed, so it must not read the values of a
  // tensor.
  std::function<Loss(const Networks&, const Samples&, const Pass&)> loss;
  // If set, replaces the loss with the objective's loss of a whole window (train/window_loss.h).
  ObjectivePtr of_window{};
  StepOptions step{};
  // As in Player.
  int64_t every = 1, times = 1;
  std::vector<std::string> terms{};  // of Player
  // As in Player, but also takes the networks, and the game with the windows of all players. Like
  // the loss, it must not read the values of a tensor.
  std::function<void(const Networks&, const Game&)> begin{};
  std::function<Tensor(const Samples&)> weight{};  // of Player
};

namespace detail {

// The networks to train and their objective: one network with the objective's loss, or several
// players, each with its own loss and StepOptions. The objective scores the answers of the one
// network, or of the last player.
struct Task {
  ModelFactory model{};      // called again for every prediction of memory; null with players
  ObjectivePtr objective{};  // if null: objective_of() the data set
  std::vector<PlayerOptions> players{};
};

}  // namespace detail

}  // namespace accrue
