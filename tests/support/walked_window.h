#pragma once

#include "tests/support/golden_window.h"
#include "train/game.h"
#include "train/objective.h"

namespace accrue::test {

// How the loss of a golden window is computed. `walks` takes two walks (train/window_loss.h), and
// `at_once` one graph of one micro-batch. The others make mistakes that a test must see:
// micro-batches count by their share of the window once more, the second walk has other masks than
// the first, or each rank compares its own samples alone.
enum class LossWay { walks, at_once, unweighted, other_masks, each_rank };

// A player that steps the model by that loss. At each of the loss's walks it goes through the
// window as a walk of `each` does. `parts` is the number of micro-batches of a walk. The model and
// the objective must outlive the player.
Player player_of(LossWay way, const Layer& model, const Objective& objective, Window& window,
                 size_t parts, Ranks* ranks, const MakeWalk& each = nullptr);
// Takes `steps` steps; each is an epoch.
WindowOutcome take_steps(const Player& player, const std::vector<MicroBatch>& parts, int steps);

}  // namespace accrue::test
