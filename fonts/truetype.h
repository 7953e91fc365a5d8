#pragma once

#include <map>
#include <string>
#include <vector>

#include "fonts/face.h"
#include "fonts/outline.h"

namespace accrue::fonts {

// A font to write: https://learn.microsoft.com/typography/opentype/spec
struct TrueTypeFont {
  struct Glyph {
    char32_t code;
    int advance;
    std::vector<Contour> outline;  // in font units, ink on the right; empty for a space
  };

  std::string family, full_name, description;
  FontFacts source;  // the font has its lines, weight and licence
  std::vector<Glyph> glyphs;
  int64_t created = 0;  // seconds since 1970; it is also when the font was last modified
};

// The font as a file, with a box as the glyph of characters that it lacks. The same font gives the
// same bytes. Points are rounded to whole units. Throws Error if a code occurs twice, for a glyph
// with more points than TrueType can count, and for 65535 glyphs or more.
std::string encode_truetype(TrueTypeFont font);

}  // namespace accrue::fonts
