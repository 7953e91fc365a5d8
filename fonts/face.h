#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/png.h"
#include "fonts/glyphs.h"

namespace accrue::fonts {

// The way a glyph is placed on a square of S pixels.
//   bbox: as large as it can be inside a margin of S / 16, in its own proportions, its bounding box
//     in the middle. Fonts place their lines of writing at different heights; this removes the
//     difference.
//   zi2zi: like font2img of zi2zi: an em of 150 / 256 S, the ascender's line and the origin
//     20 / 256 S from the edges. Parts that reach beyond the square are cut off.
enum class GlyphLayout { bbox, zi2zi };
const std::map<std::string, GlyphLayout>& glyph_layout_names();

// The place where a layout puts a glyph: a point u of the font, in its units, lies at (x, y) +
// scale * u, in pixels from the lower left.
struct GlyphPlacement {
  double scale, x, y;
};

// Facts about all glyphs of a font, from its tables. Lengths are in its units.
struct FontFacts {
  struct Line {
    int ascender, descender, gap;  // a line is ascender - descender + gap high
  };
  std::string family, copyright, licence, licence_url;  // each empty if the font has none
  int units_per_em = 0;
  Line line{};                                  // of the table hhea
  Line typographic{};                           // of the table OS/2, or else `line`
  bool is_typographic = false;                  // true if programs should use `typographic`
  int windows_ascent = 0, windows_descent = 0;  // Windows may cut off more; not negative
  int weight = 400, width = 5, embedding = 0;   // usWeightClass, usWidthClass, fsType
  std::array<uint32_t, 4> unicode_ranges{};
  std::array<uint32_t, 2> code_pages{};
};

// A font whose characters can be drawn. Throws Error, naming the file, for a file that is not a
// font, is damaged, or has no outlines or no Unicode characters, and if accrue was built without
// FreeType.
class Face {
 public:
  // `name` is "FILE", or "FILE#2" for a face of a file with several faces. Throws Error, with a
  // list of the faces, if such a file is named without a number.
  explicit Face(const std::string& name);
  ~Face();
  Face(Face&&) noexcept;

  // Describes the font. The licence is the one in its table of names, or else the copyright.
  const detail::GlyphFont& about() const;
  FontFacts facts() const;
  // The character as S x S pixels, black on white and anti-aliased, or nothing if the font lacks it
  // or shows nothing for it, as for a space. Throws Error, naming file and character, for a damaged
  // glyph.
  std::optional<detail::GrayImage> draw(char32_t code, int64_t S, GlyphLayout layout) const;
  // The place where draw() puts the character; nothing if the font has no outline for it.
  std::optional<GlyphPlacement> placement(char32_t code, int64_t S, GlyphLayout layout) const;
  // The distance from the origin of the character to that of the next, in units; nothing if the
  // font lacks it.
  std::optional<int> advance(char32_t code) const;

 private:
  struct Opened;
  std::unique_ptr<Opened> opened_;
};

}  // namespace accrue::fonts
