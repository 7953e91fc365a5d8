#pragma once

#include <string>

#include "core/inside.h"
#include "fonts/glyph_score.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// `accrue font score`: the scores of the drawings of held-out characters, and for comparison the
// scores of the source itself and of a blank page.
struct FontScores {
  int64_t characters = 0;
  GlyphScore drawn, source, blank;

  // {"characters": 200, "drawn": {"ssim": 0.5, "ink_iou": ..., "ink_f1": ..., "l1": ...}, ...}
  std::string json() const;
};
Settings font_score_settings(Request& options);
// Also prints the scores as a table. Throws Error as load_generator() does (fonts/draw.h).
FontScores score_font(const Request& options, const Notices& notices);

}  // namespace accrue
