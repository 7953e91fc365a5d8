#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue::test {

// A TrueType font of rectangles, written by hand
// (https://learn.microsoft.com/typography/opentype/spec), so that what is drawn is known.
struct TinyFont {
  struct Box {
    int left, bottom, right, top;  // of the 1000 units of an em; empty: a glyph without an outline
  };

  std::string name = "Tiny", licence = "Free for all", copyright = "Nobody";
  int ascender = 800;
  std::map<char32_t, Box> glyphs;

  // The font as it stands in a file at `offset`.
  std::string file(size_t offset = 0) const;
};

// The letters of the alphabet, of which D, H, K and R are held out, in boxes that differ, and a
// space.
TinyFont letters(const std::string& name, int width);

// A file of several fonts.
std::string collection_of(const std::vector<TinyFont>& fonts);

}  // namespace accrue::test
