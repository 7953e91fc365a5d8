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
// encoder_i and decoder_i are DoubleConvs to channels[i], pool is 2x2 max-pooling, up_i is a
// transposed 2x2 convolution of stride 2, and head is a 1x1 convolution. [a, b] is the
// concatenation of channels; the decoder's first convolution takes it in parts. x is [N,
// in_channels, H, W], y [N, out_channels, H, W]. If H or W is not a multiple of 2^(levels - 1), x
// is padded with zeros at the bottom and on the right to the next multiple, and y is cut to x's
// size. The padding is equal for all images. To 3x3 convolutions it looks like the zeros around any
// image; GroupNorm counts its zeros.
// Parameters are named as in a PyTorch module with the nn.ModuleLists encoder, up and decoder, and
// head: encoder.0.0.weight, up.0.weight, decoder.0.0.weight, head.weight, ... Recompute::all drops
// the activations inside each encoder and decoder, and recomputes one half of a block at a time.
// Recompute::sqrt also drops everything between the finest encoder and decoder, and recomputes it
// in the same way.
class UNet : public Layer {
 public:
  // `channels` has one multiple of 8 (GroupNorm's groups) for each level, the finest first. Dropout
  // comes before the head.
  explicit UNet(std::span<const int64_t> channels, double dropout = 0,
                InitScheme init = InitScheme::kaiming, int64_t in_channels = 1,
                int64_t out_channels = 1);
  Tensor forward(Tensor x, const Pass& pass) const override;
  // One line for each part: its name and its description.
  std::string describe() const override;

  // The parts, for code that runs them in another way.
  size_t levels() const { return encoder_.size(); }
  const detail::DoubleConv& encoder(size_t level) const { return *encoder_.at(level); }
  const detail::DoubleConv& decoder(size_t level) const { return *decoder_.at(level); }
  const ConvTranspose2d& up(size_t level) const { return *up_.at(level); }
  const Conv2d& head() const { return head_; }

 private:
  // The outermost recomputed level keeps its decoder's activations, because backward begins with
  // them.
  enum class Position { inside, outermost };
  // Runs everything from the input of level i to its output, which has channels[i] channels.
  Tensor level(size_t i, Tensor x, const Pass& pass, Position position) const;

  std::vector<std::unique_ptr<detail::DoubleConv>> encoder_, decoder_;
  std::vector<std::unique_ptr<ConvTranspose2d>> up_;
  std::optional<Dropout> dropout_;
  Conv2d head_;
};

}  // namespace accrue
