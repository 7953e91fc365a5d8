#pragma once

#include "apps/cli/options.h"
#include "data/dataset.h"

namespace accrue::app {

// The data set of --data, on the cpu, checked to be one that the model can learn. Throws Error as
// find_dataset() does.
Datasets load_data(const Options& options);

// The options with the model, its width and the normalization of the weights that training or
// evaluation starts from, and how they are scored, as far as their file says them and they were not
// given, and with the images and classes that it was of. Throws Error for those that were given
// otherwise, but for how they are scored.
Options with_options_of_weights(const Options& options);

}  // namespace accrue::app
