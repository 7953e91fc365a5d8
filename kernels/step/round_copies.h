#pragma once

#include "core/parameters.h"

namespace accrue {

// Brings up to date what follows from the values, for whoever has set them: copies[i] = values[i]
// rounded to nearest, for the 16-bit copies that a model computes with, if it has any; and packed
// forms are dropped. An optimizer writes values and copies in one pass.
void round_copies(const Parameters& parameters);

}  // namespace accrue
