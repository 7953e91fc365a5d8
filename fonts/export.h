#pragma once

#include <functional>
#include <string>

#include "core/inside.h"
#include "fonts/face.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// `accrue font export`: a font of drawings. The network draws every character that is asked for and
// that the source font has. The outline of the drawing becomes a glyph in the place of the source's
// glyph, with the advance widths and line heights of the source.
struct FontExportOptions {
  std::string font;                                      // the source, as Face takes it
  std::string characters;                                // as characters_of() takes it
  std::string style;                                     // empty: the only one
  fonts::GlyphLayout layout = fonts::GlyphLayout::bbox;  // a data set has its own
  std::string name;  // of the family; empty: "<source's family> in <style>"
  std::string out;
};
Settings settings_of(FontExportOptions& asked, Request& options);
// Calls progress(done, total) after each part of the characters is drawn. Throws Error without
// potrace, for an unknown style, and if all drawings are blank.
void export_font(const Request& options, const FontExportOptions& asked, const Notices& notices,
                 const std::function<void(size_t done, size_t total)>& progress = {});

}  // namespace accrue
