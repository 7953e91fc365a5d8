#pragma once

#include "data/png.h"
#include "images/augmentation.h"
#include "images/image_folder.h"
#include "images/packed_images.h"

namespace accrue {

// A sheet of good images to look at, each in the middle of a square of 96 pixels. It has a line for
// each of at most 20 classes, with the first eight images of the class. For a folder with masks it
// has up to 64 images, evenly chosen, with half of each mask's colour over the pixels that the mask
// covers. The images are augmented as with seed 0 in epoch 0. Throws Error as read_sample() does,
// and if there are no good images.
PngImage image_sheet(const ImageFolder& folder, const ImageSurvey& found,
                     const Augmentation& augmentation);
// The same for images in memory; training images come before test images.
PngImage image_sheet(const PackedImages& found, const Augmentation& augmentation);

}  // namespace accrue
