#pragma once

#include <optional>
#include <span>
#include <vector>

#include "data/png.h"
#include "data/samples.h"
#include "fonts/zi2zi.h"

namespace accrue {

// Draws with the network's dropout, where each seed gives another variation. The dropout mask of a
// glyph depends on the seed and on the glyph's number, not on the glyphs beside it.
struct Variation {
  uint64_t seed = 0;
  std::vector<int32_t> glyphs;  // the number of each sample
};

// Draws the samples' sources in their styles, with a generator on `device`. It draws at most `most`
// at a time, or fewer if there is no memory for that. Returns [N, 1, S, S] f32 on the cpu. Throws
// Error for a variation that does not number every sample.
Tensor draw_glyphs(const detail::Zi2ziGenerator& network, const Samples& samples, Device device,
                   int64_t most, const std::optional<Variation>& variation = {});

// Converts images [N, 1, S, S] of pixels from -1 to 1, of any device and floating dtype, to bytes.
std::vector<detail::GrayImage> to_images(const Tensor& images);

// Draws the samples' sources in `steps` styles, evenly spaced between `from` and `to`, which are
// included. Returns a row of images for each step; all rows use the same dropout masks. Throws
// Error for fewer than 2 steps, and as draw_glyphs() does.
std::vector<std::vector<detail::GrayImage>> draw_between(
    const detail::Zi2ziGenerator& network, const Samples& samples, Device device, int32_t from,
    int32_t to, int64_t steps, const std::optional<Variation>& variation = {});

// Makes samples of images of S x S pixels, as sources to draw in a style, in `dtype`. Throws Error
// if there are no images.
Samples glyph_samples(const std::vector<detail::GrayImage>& images, int32_t style, DType dtype);

// A sheet of glyphs to look at. Each row has the same number of images, all of one size; the rows
// may be the sources, the drawings and the targets. Corresponding images stand below each other. A
// line has `columns` of them, and the rest of the rows follows in the lines below. The gaps are
// gray. Throws Error for rows that are empty or of different lengths, and for images of different
// sizes.
detail::GrayImage glyph_sheet(std::span<const std::vector<detail::GrayImage>> rows,
                              int64_t columns = 20);
// Sources, drawings and targets, one below the other.
detail::GrayImage sheet_of(const Samples& samples, const Tensor& drawn);

}  // namespace accrue
