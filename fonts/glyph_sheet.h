#pragma once

#include <span>
#include <vector>

#include "data/png.h"

namespace accrue {

// A sheet of glyphs to look at. Each row has the same number of images, all of one size: the
// sources, for example, the drawings and the targets. Corresponding images stand below each other,
// `columns` in a line; the rest of the rows follows under them. The gaps are gray. Throws Error for
// rows that are empty or of different lengths, and for images of different sizes.
GrayImage glyph_sheet(std::span<const std::vector<GrayImage>> rows, int64_t columns = 20);

}  // namespace accrue
