#pragma once

#include "tests/support/golden_window.h"
#include "train/game.h"
#include "train/objective.h"

namespace accrue::test {

// How a loss of a golden window is computed: in two walks (train/window_loss.h); as one graph of
// one micro-batch; or with a mistake that a test sees: the rows of the gradient count alike in
// every micro-batch, the second walk has other masks than the first, or each rank compares its own
// samples alone.
enum class LossWay { walks, at_once, unweighted, other_masks, each_rank };

// A player that steps the model by it, and goes through a window, at each walk, as `each` says.
// `parts` is how many micro-batches a walk has; the model and the objective must outlive it.
Player player_of(LossWay way, const Layer& model, const Objective& objective, Window& window,
                 size_t parts, Ranks* ranks, const MakeWalk& each = nullptr);
// Takes so many steps, each an epoch of its own.
WindowOutcome take_steps(const Player& player, const std::vector<MicroBatch>& parts, int steps);

}  // namespace accrue::test
