#pragma once

#include "core/inside.h"
#include "layers/unet.h"

namespace accrue {

// Runs a U-Net in tiles, with the answer that it gives to the whole images:
//   tiled(x) = unet(x)
// up to rounding, because a group norm's moments, summed over tiles, and what a convolution adds up
// come in another order. The network is run level by level. Of a level, the images that enter it
// from above and those that leave it are whole, on the host; all else exists for one tile at a
// time. A tile has what its own pixels depend on within the level, `overlap` / 2 pixels on every
// side. The level goes over its tiles once for each norm, to add up the moments of the tiles' own
// pixels (in float64) by the moments of the norms before, and once more to answer.
//   level_i(x):  encoder: 3 times, of which the last makes pool(skip)
//                decoder: 3 times, each from x and level_{i+1}, so that skip is not kept
// The work is 3.5 times that of unet(x) for any number of levels, and more by what tiles share.
// On the host there are x, y and, at most, as many values as the finest level's skip connection
// has, where unet() has 3.5 times as many; on the device what unet() takes for one tile, and at the
// end y. Tiles have `size` pixels on a side, and half as many (at least 64) from level to level,
// where there are twice the channels. x [N, C, H, W] of any size; no larger than a tile it is
// answered as a whole. The network must outlive this.
class TiledUNet : public Layer {
 public:
  static constexpr int64_t overlap = 8;  // of two 3x3 convolutions each in encoder and decoder
  // Throws Error unless size is even and above the overlap.
  TiledUNet(const UNet& unet, int64_t size);
  // Records nothing. Throws Error in a training pass.
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  // What comes out of level i, of the head at level 0, for images on the host.
  Tensor level(size_t i, Tensor x, Device device, const Pass& pass) const;
  int64_t size_at(size_t level) const;

  const UNet& unet_;
  const int64_t size_;
};

}  // namespace accrue
