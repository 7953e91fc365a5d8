#pragma once

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

}  // namespace accrue
