#pragma once

#include <cstddef>

namespace accrue::app {

// How many characters of a list, and of a licence, are printed (shortened(), fonts/glyphs.h).
inline constexpr size_t most_listed = 20, most_of_licence = 100;

}  // namespace accrue::app
