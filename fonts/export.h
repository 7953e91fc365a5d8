#pragma once

#include <functional>
#include <string>

#include "core/inside.h"
#include "fonts/face.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

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
// Calls progress(done, total) after each part of the characters is drawn. Throws Error without
// potrace, for a style that is not there, and if all drawings are blank.
void export_font(const Request& options, const FontExportOptions& asked, const Notices& notices,
                 const std::function<void(size_t done, size_t total)>& progress = {});

}  // namespace accrue
