#pragma once

// Pairs of glyphs, and zi2zi.
//
//     const Datasets glyphs = load_glyphs("pairs");
//     const Dataset strokes = make_strokes(Split::train);
//     options.players = zi2zi_players({.networks = {}, .losses = {}, .step = {}});

#include "fonts/glyph_score.h"
#include "fonts/glyphs.h"
#include "fonts/strokes.h"
#include "fonts/zi2zi.h"
#include "fonts/zi2zi_game.h"
