#pragma once

#include <algorithm>

#include "kernels/detail/formulas.h"
#include "kernels/gather_samples.h"

namespace accrue {

// The planes of a sample that are normalized alike: all planes together, or each channel by itself.
// The size is fixed, so that a kernel can take it as an argument.
struct PixelPlanes {
  int count = 1;
  formula::Pixel formulas[most_channels] = {};

  PixelPlanes() = default;
  explicit PixelPlanes(const Normalization& normalization)
      : count(static_cast<int>(std::max(normalization.mean.size(), normalization.std.size()))) {
    const auto of_plane = [](const std::vector<double>& values, int p) {
      return values.size() == 1 ? values[0] : values[static_cast<size_t>(p)];
    };
    for (int p = 0; p < count; ++p)
      formulas[p] = {of_plane(normalization.mean, p), 1 / of_plane(normalization.std, p)};
  }
};

}  // namespace accrue
