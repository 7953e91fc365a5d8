#pragma once

#include "core/parameters.h"

namespace accrue {

// Call this after setting the parameters' values: it updates everything that is derived from them.
// copies[i] = values[i], rounded to nearest, if the model computes with 16-bit copies; packed forms
// are dropped. An optimizer writes values and copies in one pass.
void round_copies(const Parameters& parameters);

}  // namespace accrue
