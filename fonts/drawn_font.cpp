#include "fonts/drawn_font.h"

#include "core/error.h"

namespace accrue::fonts {

TrueTypeFont font_after(const Face& source, const std::string& family,
                        const std::string& description) {
  TrueTypeFont font{family, family + ", drawn by accrue", description, source.facts(), {}};
  for (const char32_t space : {U' ', U'\u00a0', U'\u3000'})
    if (const std::optional<int> advance = source.advance(space))
      font.glyphs.push_back({space, *advance, {}});
  return font;
}

TrueTypeFont::Glyph glyph_after(const Face& source, char32_t code, const GrayImage& drawing,
                                GlyphLayout layout) {
  const std::optional<GlyphPlacement> place = source.placement(code, drawing.height, layout);
  check(place.has_value(), "the font {} has no glyph of {} ({})", source.about().file,
        to_utf8(code), code_name(code));
  TrueTypeFont::Glyph glyph{code, source.advance(code).value_or(0), trace(drawing)};
  for (Contour& contour : glyph.outline)
    for (OutlinePoint& p : contour)
      p = {(p.x - place->x) / place->scale, (p.y - place->y) / place->scale, p.on_curve};
  return glyph;
}

}  // namespace accrue::fonts
