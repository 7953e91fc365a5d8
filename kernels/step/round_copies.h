#pragma once

#include "core/parameters.h"

namespace accrue {

// copies[i] = values[i] rounded to nearest, for the 16-bit copies that a model computes with, if it
// has any. To be called by whoever sets values; an optimizer writes both in one pass.
void round_copies(const Parameters& parameters);

}  // namespace accrue
