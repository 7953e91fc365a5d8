#pragma once

#include <filesystem>
#include <vector>

#include "data/samples.h"

namespace accrue {

enum class Overlays { off, on };

// The files that write_masks() writes for sample n: its mask or masks, and then the overlay.
std::vector<std::filesystem::path> mask_paths(int64_t n, const Dataset& data, const Field& masks,
                                              const std::filesystem::path& directory,
                                              Overlays overlays);

// Writes the masks that follow from logits [n, K, H, W] for the samples of `part`, which are those
// of the data set from `begin` on, as PNG files by the samples' names (x.png for x.jpg). `masks`
// says what they mean. If each pixel has one class, the file has, for the most probable one, its
// value (Field::class_values), or else its number. If a plane says whether something is there, it
// is white where the probability is above a half; several planes have a file each, x_LABEL.png.
// Overlays, x_overlay.png, are the images with half of each class's colour on its pixels, and none
// for the value 0. Both have the size that the samples have, or, if these are images of the
// directory `stretched` at another size, that of the images' files: each pixel takes the answer to
// the pixel under its centre.
void write_masks(const Tensor& logits, const Samples& part, int64_t begin, const Dataset& data,
                 const Field& masks, const std::filesystem::path& directory, Overlays overlays,
                 const std::filesystem::path& stretched = {});

}  // namespace accrue
