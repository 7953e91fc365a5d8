#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/view.h"
#include "data/dataset.h"
#include "kernels/gather_samples.h"

namespace accrue {

// Changes to the images of a data set in training. They are drawn anew for each sample in each
// epoch. All fields [N, C, H, W] of the sample, of pixels, masks and indices, get the same changes.
struct Augmentation {
  bool flip = false,
       vflip = false;           // swap left and right, or top and bottom, in half of the cases
  double rotate = 0;            // the largest angle either way, in degrees; 0 to 180
  double crop = 1;              // the smallest part of each side that is enlarged; above 0, up to 1
  double brightness = 0;        // multiplies pixels by 1 - brightness to 1 + brightness; 0 to 1
  double contrast = 0;          // likewise multiplies their distances from the image's mean
  bool crops_anywhere = false;  // crops of fixed size (Dataset::crop_to()) lie at random places

  bool is_any() const { return *this != Augmentation{}; }
  bool operator==(const Augmentation&) const = default;
};

namespace detail {

// Reads "flip,rotate=10"; without numbers rotate is 10, crop 0.8, brightness and contrast 0.2. ""
// is no augmentation. Throws Error for any other text, and for numbers out of the ranges above.
Augmentation parse_augmentation(const std::string& text);

// The changes to one sample. An output pixel at (x, y), counted from the image's centre, shows the
// input at
//   (across[0] x + across[1] y + across[2] W,  down[0] x + down[1] y + down[2] H)
struct Augmenting {
  double across[3] = {1, 0, 0}, down[3] = {0, 1, 0};
  double brightness = 1, contrast = 1;
  CropPlace place{};  // of its crop; the other changes are made to the crop
};
// Draws the changes to a sample. They depend on the arguments alone.
Augmenting draw_augmenting(const Augmentation& augmentation, uint64_t seed, int64_t epoch,
                           int64_t sample);

// The function that changes a data set in training (Dataset::augmentation); null for no
// augmentation.
DrawChange changes_of(const Augmentation& augmentation);

// Changes a sample's row of a field of this shape [N, C, H, W]. Fields of other ranks and of
// numbers stay as they are. Pixels are mixed from the four around a place; masks and indices are
// taken from the nearest. Outside the image, pixels are black, masks 0, and indices `outside`.
// Brightness and contrast change only pixels.
void augment_row(std::span<std::byte> row, Encoding encoding, const Shape& shape,
                 const Augmenting& by, int32_t outside = 0);

}  // namespace detail

}  // namespace accrue
