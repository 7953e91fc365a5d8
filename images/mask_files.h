#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/samples.h"

namespace accrue {

// The colours of masks' classes, in turn; readers who cannot tell red from green can still tell
// these apart (Okabe and Ito).
inline constexpr std::array<std::array<uint8_t, 3>, 7> mask_colours{{{230, 159, 0},
                                                                     {86, 180, 233},
                                                                     {0, 158, 115},
                                                                     {240, 228, 66},
                                                                     {0, 114, 178},
                                                                     {213, 94, 0},
                                                                     {204, 121, 167}}};

// Mixes half of a class's colour into a pixel of red, green and blue.
inline void mix_colour(uint8_t* pixel, size_t mask_class) {
  const auto& colour = mask_colours[mask_class % mask_colours.size()];
  for (size_t c = 0; c < colour.size(); ++c)
    pixel[c] = static_cast<uint8_t>((pixel[c] + colour[c]) / 2);
}

enum class Overlays { off, on };

// The files that write_masks() writes for sample n: its mask or masks, and then the overlay.
std::vector<std::filesystem::path> mask_paths(int64_t n, const Dataset& data, const Field& masks,
                                              const std::filesystem::path& directory,
                                              Overlays overlays);

// Writes masks as PNG files, from logits [n, K, H, W] for the samples of `part`, which are samples
// `begin` to `begin` + n of the data set. The files have the samples' names (x.png for x.jpg).
// `masks` gives the logits their meaning. If each pixel has one class, the file has the most
// probable class, as its value (Field::class_values) or else as its number. If a plane says whether
// something is there, the file is white where the probability is above a half; several planes have
// a file each, x_LABEL.png. Overlays, x_overlay.png, are the images with half of each class's
// colour over its pixels, except for the class of value 0.
// All files have the size of the samples. If these are images of the directory `stretched` at
// another size, the files have the size of the original images instead, and each pixel takes the
// answer for the pixel under its centre.
void write_masks(const Tensor& logits, const Samples& part, int64_t begin, const Dataset& data,
                 const Field& masks, const std::filesystem::path& directory, Overlays overlays,
                 const std::filesystem::path& stretched = {});

}  // namespace accrue
