#pragma once

#include <vector>

#include "core/inside.h"
#include "layers/module.h"

namespace accrue {

// Runs a model that answers an image with an image of the same size, a tile at a time. So only a
// tile's activations are in memory:
//   tiled(x)[n, k, h, w] = model(x[n, :, tile])[k, h - top, w - left].
// Tiles begin every size - overlap rows and columns and end with the image. Where two tiles
// overlap, each gives half of the shared pixels. The answer equals the model's answer to the whole
// image if each pixel depends on at most overlap / 2 others on every side. It does not with
// GroupNorm, whose statistics are then a tile's. Max-pools and strides see the same pixels only if
// size - overlap is a multiple of the factor by which they shrink images.
// x [N, C, H, W], y [N, K, H, W], with NoGrad; an image no larger than a tile is answered as a
// whole. Tiles are cut and put together on the host. The model must outlive this.
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

// A tile's rows or columns, from `begin` to `end`. From `own_begin` to `own_end`, no other tile
// gives the answer.
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
// The same part of images whose sides are divided by `factor`.
Tile shrunk(const Tile& tile, int64_t factor);

// x itself if it is on the cpu, else a copy there.
Tensor to_host(const Tensor& x);
// Copies a part of images from the host to a device.
Tensor cut(const Tensor& images, const Tile& tile, Device device);
// Copies a tile's own pixels from the answer, on any device, to `images` on the host. If `images`
// is undefined, makes it first, [N, C, H, W].
void paste_own(Tensor& images, const Tensor& answer, const Tile& tile, int64_t H, int64_t W);

}  // namespace accrue
