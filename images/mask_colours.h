#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

}  // namespace accrue
