#pragma once

#include <span>
#include <vector>

#include "data/png.h"

namespace accrue {

// Glyphs to look at: each row has the same number of images, all of one size, say the sources, what
// was drawn of them, and the targets. They stand below each other, `columns` in a line, under which
// the rows go on; with gray gaps. Throws Error for rows that are empty or of different lengths, and
// for images of different sizes.
GrayImage glyph_sheet(std::span<const std::vector<GrayImage>> rows, int64_t columns = 20);

}  // namespace accrue
