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

// The built-in data set of one drawing in two hands: characters of three to seven strokes, as
// `sources` (pixels [N, 1, S, S], a thin pen of one width) and as `targets` (pixels [N, 1, S, S], a
// brush whose width follows the direction of the stroke, with serifs, tapers and hooks, and lines
// that rise to the right); black 0 on white 255, anti-aliased. `styles` (indices [N], 1 class) are
// 0. S is options.side: 32, 64, 128 or 256. Each stroke's kind shows in the source, so that the
// target follows from it. Sample i of a split depends on (seed, split, i, S) alone, bit for bit the
// same on every machine. Throws Error unless both sizes are at least 1 and S is one of these.
Dataset make_strokes(Split split, const StrokesOptions& options = {});

}  // namespace accrue
