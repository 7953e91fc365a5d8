#pragma once

#include <vector>

#include "core/tensor.h"

namespace accrue {

// A tile's rows or columns, and those of them that no other tile answers for.
struct Stretch {
  int64_t begin, end, own_begin, own_end;

  int64_t size() const { return end - begin; }
  int64_t own_size() const { return own_end - own_begin; }
};

// A part of images [N, C, H, W].
struct Tile {
  Stretch rows, columns;
};

// Tiles of `size` pixels on every side that cover images of H x W. They begin every size - overlap
// rows and columns and end with the image. Neighbours share `overlap` pixels, and each owns half of
// them.
std::vector<Tile> tiles_of(int64_t H, int64_t W, int64_t size, int64_t overlap);
// The same part of images whose sides are `factor` times as short.
Tile shrunk(const Tile& tile, int64_t factor);

// x itself if it is on the cpu, else a copy that is.
Tensor to_host(const Tensor& x);
// A copy of a part of images on the host, on a device.
Tensor cut(const Tensor& images, const Tile& tile, Device device);
// Writes a tile's own pixels to images on the host, those of the size [N, C, H, W] that the tiles
// cover; makes them if `images` is undefined. The answer is on any device.
void paste_own(Tensor& images, const Tensor& answer, const Tile& tile, int64_t H, int64_t W);

}  // namespace accrue
