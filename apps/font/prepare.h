#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fonts/face.h"
#include "train/settings.h"

namespace accrue::app {

// `accrue font prepare`: the characters that all fonts have, drawn in the source font and in each
// target, as a directory of pairs (data/glyphs.h), which appears complete or not at all.
struct FontPrepareOptions {
  std::string source;                // a font, as Face takes it
  std::vector<std::string> targets;  // a style each, called by its file's name
  std::string characters;            // as characters_of() takes it
  int64_t size = 256;
  fonts::GlyphLayout layout = fonts::GlyphLayout::bbox;
  std::string out;
  std::optional<int64_t> limit;  // the first so many characters that all fonts have
};
Settings settings_of(FontPrepareOptions& prepare);
void prepare_font(const FontPrepareOptions& prepare);

}  // namespace accrue::app
