#pragma once

#include <map>
#include <string>
#include <vector>

#include "fonts/face.h"
#include "fonts/outline.h"

namespace accrue::fonts {

// A font to be written: https://learn.microsoft.com/typography/opentype/spec
struct TrueTypeFont {
  struct Glyph {
    char32_t code;
    int advance;
    std::vector<Contour> outline;  // in units, ink on the right; none, as of a space
  };

  std::string family, full_name, description;
  FontFacts source;  // whose lines, weight and licence are the font's own
  std::vector<Glyph> glyphs;
};

// The font as a file, with a box for what it lacks; the same bytes for the same font. Points are
// rounded to whole units. Throws Error unless every code is there once, for a glyph with more
// points than TrueType can count, and for 65535 glyphs or more.
std::string encode_truetype(TrueTypeFont font);

}  // namespace accrue::fonts
