#pragma once

// Pairs of glyphs, and zi2zi.

#include "fonts/glyph_score.h"
#include "fonts/glyphs.h"
#include "fonts/strokes.h"
#include "fonts/zi2zi.h"
#include "fonts/zi2zi_game.h"
