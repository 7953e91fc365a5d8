#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "images/image_file.h"

namespace accrue::detail {

// The values in the masks of a folder: how many pixels each has, how many of these lie between a
// smaller and a larger neighbour (above, below or beside them), and how many have fewer than two
// neighbours of their own value.
class MaskValues {
 public:
  void add(const Image& mask);
  void add(const MaskValues& others);

  // Returns the values in ascending order, without that of pixels that nobody has judged, if any.
  std::vector<int> all(int unjudged = -1) const;
  // Says why these values can hardly be classes, or nothing if they can: half of them or more have
  // no regions, but line the edges of others, as smoothing (antialiasing) leaves them, or are
  // strewn around them, as JPEG does, on a third of the pixels at most.
  std::string smoothed(int unjudged = -1) const;

 private:
  struct Count {
    int64_t pixels = 0, between = 0, alone = 0;
  };
  std::array<Count, 256> counts_{};
};

}  // namespace accrue::detail
