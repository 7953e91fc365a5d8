#pragma once

#include "data/dataset.h"

namespace accrue::detail {

// A built-in table for a first try: points of two crescents that lie in each other, with noise, to
// be told apart. The columns are x and y.
Datasets make_moons();

}  // namespace accrue::detail
