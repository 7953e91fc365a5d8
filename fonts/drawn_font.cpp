#include "fonts/drawn_font.h"

#include "core/error.h"
#include "core/inside.h"

namespace accrue::fonts {

TrueTypeFont font_after(const Face& source, const std::string& family,
                        const std::string& description) {
  TrueTypeFont font{family, family + ", drawn by accrue", description, source.facts(), {}};
  for (const char32_t space : {U' ', U'\u00a0', U'\u3000'})
    if (const std::optional<int> advance = source.advance(space))
      font.glyphs.push_back({space, *advance, {}});
  return font;
}

std::vector<TrueTypeFont::Glyph> glyphs_after(const Face& source, const std::u32string& characters,
                                              std::span<const GrayImage> drawings,
                                              GlyphLayout layout) {
  check(characters.size() == drawings.size(), "{} for {}: expected one each",
        counted(int64_t(drawings.size()), "drawing"),
        counted(int64_t(characters.size()), "character"));
  std::vector<std::vector<Contour>> outlines = trace(drawings);
  std::vector<TrueTypeFont::Glyph> glyphs;
  for (size_t i = 0; i < characters.size(); ++i) {
    const char32_t code = characters[i];
    const std::optional<GlyphPlacement> place = source.placement(code, drawings[i].height, layout);
    check(place.has_value(), "the font {} has no glyph of {} ({})", source.about().file,
          to_utf8(code), code_name(code));
    for (Contour& contour : outlines[i])
      for (OutlinePoint& p : contour)
        p = {(p.x - place->x) / place->scale, (p.y - place->y) / place->scale, p.on_curve};
    glyphs.push_back({code, source.advance(code).value_or(0), std::move(outlines[i])});
  }
  return glyphs;
}

}  // namespace accrue::fonts
