#pragma once

#include "data/png.h"
#include "images/augmentation.h"
#include "images/image_folder.h"
#include "images/packed_images.h"

namespace accrue {

// A sheet of good images to look at: for each of at most 20 classes a line of its first eight; for
// a folder with masks 64 images, evenly chosen, with half of each mask's colour over the pixels it
// covers. They are augmented as with seed 0 in epoch 0. Each stands in the middle of a square of 96
// pixels. Throws Error as read_sample() does, and if there are no good images.
PngImage image_sheet(const ImageFolder& folder, const ImageSurvey& found,
                     const Augmentation& augmentation);
// The same of images that are there already, those for training before those for the test.
PngImage image_sheet(const PackedImages& found, const Augmentation& augmentation);

}  // namespace accrue
