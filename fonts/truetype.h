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
    std::vector<Contour> outline;  // in units, ink on the right; none for a space
  };

  std::string family, full_name, description;
  FontFacts source;  // whose lines, weight and licence are the font's own
  std::vector<Glyph> glyphs;
  int64_t created = 0;  // seconds since 1970; it is also when the font was last modified
};

// The font as a file, with a box for characters that it lacks; the same font gives the same bytes.
// Points are rounded to whole units. Throws Error if a code is there twice, for a glyph with more
// points than TrueType can count, and for 65535 glyphs or more.
std::string encode_truetype(TrueTypeFont font);

}  // namespace accrue::fonts
