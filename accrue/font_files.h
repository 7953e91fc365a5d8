#pragma once

// Fonts as files: drawing their characters, sheets of characters, tracing and writing fonts. Not
// part of accrue.h.

#include "fonts/characters.h"
#include "fonts/drawn_font.h"
#include "fonts/face.h"
#include "fonts/glyph_catalogue.h"
#include "fonts/glyph_drawings.h"
#include "fonts/glyph_pairs.h"
#include "fonts/outline.h"
#include "fonts/truetype.h"
