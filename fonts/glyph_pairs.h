#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fonts/face.h"
#include "train/settings.h"

namespace accrue::fonts {

// `accrue font prepare`.
struct GlyphPairsOptions {
  std::string source;                // a font, as Face takes it
  std::vector<std::string> targets;  // fonts; each is a style with its file's name
  std::string characters;            // as characters_of() takes it
  int64_t size = 256;
  GlyphLayout layout = GlyphLayout::bbox;
  std::string out;
  std::optional<int64_t> limit;  // takes only the first N that all fonts have
};
Settings settings_of(GlyphPairsOptions& options);

// Draws the characters that all fonts have, in the source font and in each target, and writes them
// as a directory of pairs (fonts/glyphs.h). The directory appears complete or not at all. Returns
// its manifest. Throws Error as Face and characters_of() do, if the directory exists and is not
// empty, and unless there are characters for training and for the test.
detail::GlyphManifest draw_glyph_pairs(const GlyphPairsOptions& options);
// Describes such a directory in a few lines.
std::string describe(const detail::GlyphManifest& manifest, const std::string& directory);

}  // namespace accrue::fonts
