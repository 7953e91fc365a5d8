#pragma once

#include "core/inside.h"
#include "fonts/zi2zi_game.h"
#include "images/segmentation.h"

namespace accrue::test {

// The objective that the program would choose for this data.
inline ObjectivePtr objective_on(const Dataset& data) {
  if (data.has("sources")) return glyph_drawing();
  return data.has("masks") ? segmentation(data.field("masks")) : classification();
}

}  // namespace accrue::test
