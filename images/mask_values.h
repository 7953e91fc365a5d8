#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "images/image_file.h"

namespace accrue::detail {

// Counts pixels of the masks of a folder by their values: all pixels, those that lie between a
// smaller and a larger neighbour, and those with fewer than two neighbours of their own value. The
// neighbours are the pixels above, below and on both sides.
class MaskValues {
 public:
  void add(const Image& mask);
  void add(const MaskValues& others);

  // Returns the values in ascending order, without that of pixels that nobody has judged, if any.
  std::vector<int> all(int unjudged = -1) const;
  // Says why these values can hardly be classes; empty if they can. At least half of the values, on
  // at most a third of the pixels, then have no regions. Such values line the edges of others, as
  // smoothing (antialiasing) leaves them, or are strewn around them, as JPEG leaves them.
  std::string smoothed(int unjudged = -1) const;

 private:
  struct Count {
    int64_t pixels = 0, between = 0, alone = 0;
  };
  std::array<Count, 256> counts_{};
};

}  // namespace accrue::detail
