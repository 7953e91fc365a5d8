#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layers/blocks.h"

namespace accrue {

// A small U-Net (Ronneberger et al. 2015) with out_channels logits for each pixel of an image:
//   level_i(x): skip = encoder_i(x)
//               y = decoder_i([skip, up_i(level_{i+1}(pool(skip)))]), or skip at the last level
//   unet(x) = head(level_0(x))
// encoder_i and decoder_i are DoubleConvs to channels[i], pool is 2x2 max-pooling, up_i a
// transposed 2x2 convolution of stride 2, [a, b] the concatenation of channels, which the decoder's
// first convolution takes in parts, head a 1x1 convolution. x [N, in_channels, H, W], y [N,
// out_channels, H, W]. Where H or W is no multiple of 2 to the number of levels less 1, x is filled
// up with zeros at the bottom and on the right, to the next one, and y cut to x: zeros are also
// what 3x3 convolutions see around an image, and GroupNorm counts them, for each image alike.
// Parameters are named as in a PyTorch module with the nn.ModuleLists encoder, up and decoder, and
// head: encoder.0.0.weight, up.0.weight, decoder.0.0.weight, head.weight, ... Recompute::all drops
// what happens inside each encoder and decoder, and computes one half of such a block again at a
// time; sqrt drops also everything between the finest two, and is then as all.
class UNet : public Module {
 public:
  // channels: multiples of 8 (GroupNorm's groups), a level each, the finest first. Dropout stands
  // before the head.
  explicit UNet(std::span<const int64_t> channels, double dropout = 0,
                InitScheme init = InitScheme::kaiming, int64_t in_channels = 1,
                int64_t out_channels = 1);
  Tensor forward(Tensor x, const Pass& pass) const override;
  // The parts' lines, by name.
  std::string describe() const override;

 private:
  // Backward begins with the decoder of the outermost level, which is therefore not worth dropping.
  enum class Position { inside, outermost };
  // All that happens between the input of level i and its output, which has channels[i].
  Tensor level(size_t i, Tensor x, const Pass& pass, Position position) const;

  std::vector<std::unique_ptr<DoubleConv>> encoder_, decoder_;
  std::vector<std::unique_ptr<ConvTranspose2d>> up_;
  std::optional<Dropout> dropout_;
  Conv2d head_;
};

}  // namespace accrue
