#pragma once

#include "data/dataset.h"

namespace accrue {

// The sizes and the seed of the built-in strokes.
struct StrokesOptions {
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;
  uint64_t seed = 1;
  int64_t side = 64;  // 32, 64, 128 or 256 pixels
};

// The built-in data set of characters in two hands. A character has three to seven strokes.
// `sources` are drawn with a thin pen of one width, `targets` with a brush: its width follows the
// direction of the stroke, with serifs, tapers and hooks, and its lines rise to the right. Both are
// pixels [N, 1, S, S], black 0 on white 255, anti-aliased. `styles` (indices [N], 1 class) are 0. S
// is options.side: 32, 64, 128 or 256. The source shows each stroke's kind, so the target follows
// from it. Sample i of a split depends on (seed, split, i, S) alone, bit for bit the same on every
// machine. Throws Error unless both sizes are at least 1 and S is one of the four.
Dataset make_strokes(Split split, const StrokesOptions& options = {});

}  // namespace accrue
