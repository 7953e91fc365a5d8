#pragma once

#include "apps/cli/options.h"
#include "data/dataset.h"

namespace accrue::app {

// With --crop, what a model sees of images with masks: crops in training, and whole images where
// they are scored and predicted. Of images with classes these are crops, too, their middle.
enum class DataUse { training, answers };

// The data set of --data, on the cpu, checked to be one that the model can learn. Throws Error as
// find_dataset() does.
Datasets load_data(const Options& options, DataUse use = DataUse::training);

// The options with the model, its width and the normalization of the weights that training or
// evaluation starts from, and how they are scored, as far as their file says them and they were not
// given, and with the images and classes that it was of. Throws Error for those that were given
// otherwise, but for how they are scored.
Options with_options_of_weights(const Options& options);

}  // namespace accrue::app
