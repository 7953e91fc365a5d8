#pragma once

#include <string>

#include "fonts/face.h"
#include "job/request.h"

namespace accrue::app {

// `accrue font export`: a font of drawings. Every character that is asked for and that the source
// font has is drawn in a style, and its outline is written as a glyph that stands where the source
// has its own, with the source's advance widths and lines.
struct FontExportOptions {
  std::string font;                                      // the source, as Face takes it
  std::string characters;                                // as characters_of() takes it
  std::string style;                                     // empty: the only one
  fonts::GlyphLayout layout = fonts::GlyphLayout::bbox;  // without a data set, which has its own
  std::string name;  // of the family; empty: "<source's family> in <style>"
  std::string out;
};
Settings settings_of(FontExportOptions& asked, Request& options);
void export_font(const Request& given, const FontExportOptions& asked);

}  // namespace accrue::app
