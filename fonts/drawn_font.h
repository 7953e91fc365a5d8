#pragma once

#include <span>
#include <string>
#include <vector>

#include "fonts/face.h"
#include "fonts/truetype.h"

namespace accrue::fonts {

// A font with the line heights, licence and spaces of the source, and no other glyphs yet.
TrueTypeFont font_after(const Face& source, const std::string& family,
                        const std::string& description);
// A glyph for each character, with the outline of its drawing of S x S pixels. It stands in the
// place where the layout puts the source font's glyph, and has no outline if the drawing is blank.
// Throws Error for another number of drawings, for a character that the source lacks, and as
// trace() does.
std::vector<TrueTypeFont::Glyph> glyphs_after(const Face& source, const std::u32string& characters,
                                              std::span<const detail::GrayImage> drawings,
                                              GlyphLayout layout);

}  // namespace accrue::fonts
