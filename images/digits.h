#pragma once

#include "data/dataset.h"

namespace accrue {

// The built-in data set: the digits 0 to 9 as strokes, drawn anti-aliased at 28 x 28 under a random
// rotation, shear, scale, shift, wobble and stroke width, with stray strokes and noise. Sample i of
// a split depends on (seed, split, i) alone, bit for bit the same on every machine.
// Throws Error unless both sizes are at least 1.
Dataset make_digits(Split split, const BuiltInOptions& options = {});

}  // namespace accrue
