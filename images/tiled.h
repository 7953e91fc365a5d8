#pragma once

#include <vector>

#include "core/inside.h"
#include "layers/module.h"

namespace accrue {

// Runs a model that answers an image with an image of the same size, a tile at a time, so that only
// a tile's activations are in memory:
//   tiled(x)[n, k, h, w] = model(x[n, :, tile])[k, h - top, w - left]
// Tiles begin every size - overlap rows and columns and end with the image. Two tiles that overlap
// each contribute half of the pixels that they share. So a model whose pixels depend on at most
// overlap / 2 others on every side answers as it does to the whole image. One with GroupNorm does
// not, since its statistics are then those of the tile. Max-pools and strides see the same pixels
// only where size - overlap is a multiple of the factor by which they shrink. x [N, C, H, W], y [N,
// K, H, W], with NoGrad; an image no larger than a tile is answered as a whole. Tiles are cut and
// put together on the host. The model must outlive this.
class Tiled : public Layer {
 public:
  // Throws Error unless 0 <= overlap < size and overlap is even.
  Tiled(const Layer& model, int64_t size, int64_t overlap);
  // Throws Error if the model answers with images of another size.
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  const Layer& model_;
  const int64_t size_, overlap_;
};

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
