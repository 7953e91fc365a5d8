#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue font score`: how well the characters that were held out are drawn, beside what a blank
// page and the source itself would score.
Settings font_score_settings(Options& options);
void score_font(const Options& options);

}  // namespace accrue::app
