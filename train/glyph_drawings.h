#pragma once

#include <vector>

#include "data/png.h"
#include "data/samples.h"
#include "layers/zi2zi.h"

namespace accrue {

// Draws the samples' sources in their styles by a generator on `device`; as many at a time as there
// is memory for, at most `most`. Returns [N, 1, S, S] f32 on the cpu.
Tensor draw_glyphs(const Zi2ziGenerator& network, const Samples& samples, Device device,
                   int64_t most);

// Converts images [N, 1, S, S] of pixels from -1 to 1, of any device and floating dtype, to bytes.
std::vector<GrayImage> to_images(const Tensor& images);

// Sources, drawings and targets, one below the other (data/glyph_sheet.h).
GrayImage sheet_of(const Samples& samples, const Tensor& drawn);

}  // namespace accrue
