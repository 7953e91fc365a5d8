#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/glyphs.h"
#include "data/png.h"

namespace accrue::app {

// How a glyph is placed on a square of S pixels.
//   bbox: as large as it can be inside a margin of S / 16, in its own proportions, its bounding box
//     in the middle. Fonts place their lines of writing at different heights; here that is gone.
//   zi2zi: as zi2zi's font2img did it: an em of 150 / 256 S, the ascender's line and the origin
//     20 / 256 S from the edges. What reaches beyond the square is cut off.
enum class GlyphLayout { bbox, zi2zi };
const std::map<std::string, GlyphLayout>& glyph_layout_names();

// A font whose characters can be drawn. Throws Error, naming the file, for what is no font, is
// damaged, or has no outlines or no Unicode characters, and where accrue was built without
// FreeType.
class Face {
 public:
  // "FILE", or "FILE#2" for a face of a file with several, which without it is refused with their
  // list.
  explicit Face(const std::string& name);
  ~Face();
  Face(Face&&) noexcept;

  // The licence is that of the font's table of names, or else its copyright.
  const GlyphFont& about() const;
  // The character as S x S pixels, black on white and anti-aliased, or nothing if the font lacks it
  // or shows nothing for it, as for a space. Throws Error, naming file and character, for a damaged
  // glyph.
  std::optional<GrayImage> draw(char32_t code, int64_t S, GlyphLayout layout) const;

 private:
  struct Opened;
  std::unique_ptr<Opened> opened_;
};

}  // namespace accrue::app
