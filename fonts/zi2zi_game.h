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
// in the style of others, a discriminator judges pairs of a source and a glyph.
// The fields of a sample: `sources` and `targets`, images [N, C, S, S] of one character, and
// `styles` i32 [N], the target's font.

namespace detail {

// The features that must agree (Features, fonts/zi2zi.h): those of source and drawing, by their
// mean squared difference, as in the original; or those of source and target, on two levels, by
// their mean absolute difference, as in the port.
enum class Constancy { original, port };

const std::map<std::string, Upsampling>& upsampling_names();
const std::map<std::string, Skip>& skip_names();
const std::map<std::string, NormKind>& glyph_norm_names();
const std::map<std::string, Constancy>& constancy_names();

// With f a drawing of source s for target t in style k, bce the mean logistic loss, and D's verdict
// on a pair (s, x) and its guess of the style:
//   D:  (bce(D(s, t), 1) + bce(D(s, f), 0)) / 2 + category_weight * (cat(s, t) + cat(s, f)) / 2
//   G:  w bce(D(s, f), 1) + l1_weight |f - t| + constancy_weight * constancy + category_weight *
//       cat(s, f)
// where cat(s, x) is bce of D's logits for all styles against one-hot k, a mean over N x styles.
// All terms are means over samples, so that a window is exact for every split. w is
// adversarial_weight. If that is not set, w follows D's loss L over the last whole window that D
// has stepped by, never that of a micro-batch:
//   L < 0.02: 0.20    < 0.08: 0.35    < 0.20: 0.50    < 5: 0.60    else 0.05
// With alternating players that is the window under way, which D has just been through; with
// simultaneous ones it is the window before. w is 0.25 before the first.
struct Zi2ziLosses {
  Constancy constancy = Constancy::port;
  double l1_weight = 97, constancy_weight = 15, category_weight = 1;
  std::optional<double> adversarial_weight{};
};

// The two players, the discriminator first. It plays in every window, the generator in every
// `generator_every`-th, and there `generator_times` times. Both use `step`, except that the
// discriminator has a learning rate of its own if `discriminator_lr` is set.
struct Zi2ziGame {
  Zi2ziOptions networks;
  Zi2ziLosses losses;
  StepOptions step;
  std::optional<double> discriminator_lr{};
  int64_t generator_every = 1, generator_times = 1;
};

}  // namespace detail

// The players of such a game, for TrainingOptions::players.
std::vector<PlayerOptions> zi2zi_players(const detail::Zi2ziGame& game);

namespace detail {

// For drawing: answers are glyphs in the samples' styles, compared with the targets (GlyphScore).
// The loss of a score is 1 - SSIM.
ObjectivePtr glyph_drawing();

}  // namespace detail

}  // namespace accrue
