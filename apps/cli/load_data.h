#pragma once

#include "apps/cli/options.h"
#include "data/dataset.h"

namespace accrue::app {

// The data set of --data, on the cpu, checked to be one that the model can learn. Throws Error as
// find_dataset() does.
Datasets load_data(const Options& options);

}  // namespace accrue::app
