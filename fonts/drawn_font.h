#pragma once

#include <string>

#include "fonts/face.h"
#include "fonts/truetype.h"

namespace accrue::fonts {

// A font with the source's lines, licence and spaces, without other glyphs.
TrueTypeFont font_after(const Face& source, const std::string& family,
                        const std::string& description);
// A glyph with the outline of a drawing of a character, S x S pixels, in the place where the layout
// puts the source font's glyph. It has no outline if the drawing is blank.
TrueTypeFont::Glyph glyph_after(const Face& source, char32_t code, const GrayImage& drawing,
                                GlyphLayout layout);

}  // namespace accrue::fonts
