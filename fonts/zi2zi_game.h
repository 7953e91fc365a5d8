#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fonts/zi2zi.h"
#include "train/objective.h"
#include "train/player_options.h"

namespace accrue {

// zi2zi as a game of two players (train/game.h): a generator draws the characters of a source font
// in the style of others, and a discriminator judges pairs of a source and a glyph. The fields of a
// sample are `sources` and `targets`, images [N, C, S, S] of one character, and `styles` i32 [N],
// the target's font.

namespace detail {

// The pair whose features must agree (Features, fonts/zi2zi.h). `original`: source and drawing on
// the coarsest level, by their mean squared difference. `port`: source and target on two levels, by
// their mean absolute difference.
enum class Constancy { original, port };

const std::map<std::string, Upsampling>& upsampling_names();
const std::map<std::string, Skip>& skip_names();
const std::map<std::string, NormKind>& glyph_norm_names();
const std::map<std::string, Constancy>& constancy_names();

// f is a drawing of source s for target t in style k, and bce is the mean logistic loss. D(s, x) is
// D's verdict on a pair. cat(s, x) is the bce of D's logits for all styles against one-hot k, a
// mean over N x styles. The losses of the discriminator and the generator are
//   D:  (bce(D(s, t), 1) + bce(D(s, f), 0)) / 2 + category_weight * (cat(s, t) + cat(s, f)) / 2
//   G:  w bce(D(s, f), 1) + l1_weight |f - t| + constancy_weight * constancy + category_weight *
//       cat(s, f).
// All terms are means over samples, so a window is exact for every split. w is adversarial_weight.
// If that is not set, w follows D's loss L over the last whole window in which D took a step, never
// the loss of a micro-batch:
//   L < 0.02: 0.20    < 0.08: 0.35    < 0.20: 0.50    < 5: 0.60    else 0.05.
// With alternating players that is the current window, which D has just finished. With simultaneous
// ones it is the window before. w is 0.25 before the first.
struct Zi2ziLosses {
  Constancy constancy = Constancy::port;
  double l1_weight = 97, constancy_weight = 15, category_weight = 1;
  std::optional<double> adversarial_weight{};
};

// The two players, the discriminator first. The discriminator plays in every window. The generator
// plays in every `generator_every`-th, and takes `generator_times` steps there. Both use `step`,
// but the discriminator has its own learning rate if `discriminator_lr` is set.
struct Zi2ziGame {
  Zi2ziOptions networks;
  Zi2ziLosses losses;
  StepOptions step;
  std::optional<double> discriminator_lr{};
  int64_t generator_every = 1, generator_times = 1;
};

}  // namespace detail

// The players of the game, for TrainingOptions::players.
std::vector<PlayerOptions> zi2zi_players(const detail::Zi2ziGame& game);

namespace detail {

// The objective of drawing: the answers are glyphs in the samples' styles, and are compared with
// the targets (GlyphScore). The loss of a score is 1 - SSIM.
ObjectivePtr glyph_drawing();

}  // namespace detail

}  // namespace accrue
