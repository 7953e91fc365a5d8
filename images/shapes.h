#pragma once

#include "data/dataset.h"

namespace accrue {

// The built-in data set for segmentation, 28 x 28: one to three filled discs, rectangles and
// triangles at random places. Each has a grey that is lighter or darker than the ground's, under
// noise that reaches as far as the difference. The mask is 255 where a shape is. Sample i of a
// split depends on (seed, split, i) alone, bit for bit the same on every machine. Throws Error
// unless both sizes are at least 1.
Dataset make_shapes(Split split, const BuiltInOptions& options = {});

}  // namespace accrue
