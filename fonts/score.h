#pragma once

#include <string>

#include "core/inside.h"
#include "fonts/glyph_score.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// `accrue font score`: how well the characters that were held out are drawn, beside what the source
// itself and a blank page would score.
struct FontScores {
  int64_t characters = 0;
  GlyphScore drawn, source, blank;

  // {"characters": 200, "drawn": {"ssim": 0.5, "ink_iou": ..., "ink_f1": ..., "l1": ...}, ...}
  std::string json() const;
};
Settings font_score_settings(Request& options);
// Tells them as a table, too. Throws Error as load_generator() does (fonts/draw.h).
FontScores score_font(const Request& options, const Notices& notices);

}  // namespace accrue
