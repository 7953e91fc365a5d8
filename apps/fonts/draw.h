#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/request.h"

namespace accrue::app {

// `accrue font draw`: characters in a style, as a sheet of sources, drawings and targets; or what
// lies between two styles, from one above to the other below.
struct FontDrawOptions {
  std::string text;                  // characters of the data set
  bool all = false;                  // all that were held out
  std::string style;                 // empty: the first
  std::vector<std::string> between;  // two styles
  int64_t steps = 8;                 // from one to the other, both included
  std::optional<uint64_t> dropout_seed;
  std::string out = "sheet.png";
};
Settings settings_of(FontDrawOptions& asked, Request& options);
void draw_font(const Request& options, const FontDrawOptions& asked);

}  // namespace accrue::app
