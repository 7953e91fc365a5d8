#pragma once

// Characters of fonts, their sheets, and fonts that are traced and written. Not part of accrue.h.

#include "fonts/characters.h"
#include "fonts/drawn_font.h"
#include "fonts/face.h"
#include "fonts/glyph_catalogue.h"
#include "fonts/glyph_drawings.h"
#include "fonts/glyph_pairs.h"
#include "fonts/outline.h"
#include "fonts/truetype.h"
