#pragma once

#include "job/request.h"

namespace accrue::app {

// `accrue font score`: how well the characters that were held out are drawn, beside what a blank
// page and the source itself would score.
Settings font_score_settings(Request& options);
void score_font(const Request& options);

}  // namespace accrue::app
