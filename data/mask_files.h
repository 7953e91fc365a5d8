#pragma once

#include <filesystem>

#include "data/samples.h"

namespace accrue {

enum class Overlays { off, on };

// Writes the masks that logits [n, K, H, W] say of the samples of `part`, which are those from
// `begin` on of the data set, as PNG files by the samples' names (x.jpg: x.png). Where each pixel
// has one class, the most probable, a file has the value that the data set's own masks have for it
// (Field::class_values), else its number. Where a plane says if something is there, it is white
// where the probability is above a half; of several planes there is a file each, x_LABEL.png.
// Overlays, x_overlay.png, are the images with half of each class's colour where it is, none for
// the value 0.
void write_masks(const Tensor& logits, const Samples& part, int64_t begin, const Dataset& data,
                 const std::filesystem::path& directory, Overlays overlays);

}  // namespace accrue
