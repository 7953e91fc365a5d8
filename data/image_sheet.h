#pragma once

#include "data/image_folder.h"
#include "data/png.h"

namespace accrue {

// Images to look at, of those that are good: for each class a line of its first eight, at most 20
// classes; of a folder with masks 64 images, evenly chosen, with half of each mask's colour over
// what it covers. Augmented, each has what falls to it with seed 0 in epoch 0. Each stands in the
// middle of a square of 96 pixels. Throws Error as read_sample() does, and if there are none.
PngImage image_sheet(const ImageFolder& folder, const ImageSurvey& found,
                     const Augmentation& augmentation);

}  // namespace accrue
