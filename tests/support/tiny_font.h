#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue::test {

// A TrueType font of rectangles, written by hand
// (https://learn.microsoft.com/typography/opentype/spec): the drawn shapes are known.
struct TinyFont {
  struct Box {
    int left, bottom, right, top;  // in units of 1/1000 em; empty: a glyph without an outline
  };

  std::string name = "Tiny", licence = "Free for all", copyright = "Nobody";
  int ascender = 800;
  std::map<char32_t, Box> glyphs;

  // The bytes of the font for a file that has it at `offset`.
  std::string file(size_t offset = 0) const;
};

// A font with a space and the letters of the alphabet, each a box unlike the others. D, H, K and R
// are held out.
TinyFont letters(const std::string& name, int width);

// The bytes of a file of several fonts.
std::string collection_of(const std::vector<TinyFont>& fonts);

}  // namespace accrue::test
