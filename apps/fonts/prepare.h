#pragma once

#include "fonts/glyph_pairs.h"
#include "train/settings.h"

namespace accrue::app {

// `accrue font prepare`: what draw_glyph_pairs() makes.
Settings settings_of(fonts::GlyphPairsOptions& pairs);
void prepare_font(const fonts::GlyphPairsOptions& pairs);

}  // namespace accrue::app
