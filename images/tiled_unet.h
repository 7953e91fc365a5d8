#pragma once

#include "core/inside.h"
#include "layers/unet.h"

namespace accrue {

// Runs a U-Net in tiles and gives its answer to the whole images:
//   tiled(x) = unet(x)
// up to rounding, because sums over tiles, in a group norm's moments, and sums in a convolution are
// added in another order.
// The network runs level by level. The images that enter a level from above and the ones that leave
// it are whole, on the host; all else exists for one tile at a time. A tile includes the pixels
// that its own pixels depend on within the level, `overlap` / 2 on every side. The level goes over
// its tiles once for each norm, to add up the moments of the tiles' own pixels (in float64). This
// uses the moments of the norms before. It goes over them once more to answer:
//   level_i(x):  encoder: 3 times; the last makes pool(skip)
//                decoder: 3 times, each from x and level_{i+1}, so skip is not kept.
// The work is 3.5 times that of unet(x) for any number of levels; the pixels that tiles share add
// to it. The host holds x, y and at most as many values as the finest level's skip connection has,
// where unet() holds 3.5 times as many. The device holds the memory of unet() for one tile, and at
// the end y.
// Tiles have `size` pixels on a side at the finest level. This halves from level to level, while
// the channels double, but never falls below 64. x is [N, C, H, W] of any size; an image no larger
// than a tile is answered as a whole. The network must outlive this.
class TiledUNet : public Layer {
 public:
  static constexpr int64_t overlap = 8;  // twice the reach of four 3x3 convolutions
  // Throws Error unless size is even and above the overlap.
  TiledUNet(const UNet& unet, int64_t size);
  // Records nothing. Throws Error in a training pass.
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  // The output of level i, at level 0 of the head, for images on the host.
  Tensor level(size_t i, Tensor x, Device device, const Pass& pass) const;
  int64_t size_at(size_t level) const;

  const UNet& unet_;
  const int64_t size_;
};

}  // namespace accrue
