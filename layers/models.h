#pragma once

#include <map>
#include <memory>
#include <string>

#include "layers/blocks.h"

namespace accrue {

// The networks of the program, for images of any shape [C, H, W] and any number of classes; the
// sizes here are those for 28x28 images of one channel and ten classes:
//   mlp        784-512-256-128-10, relu between
//   mlp_small  784-256-10
//   cnn        two of (3x3 convolution, 2x2 max-pool, relu), 16 and 32 channels, then 1568-128-10;
//              H and W at least 4
//   cnn_gn     cnn with GroupNorm after each convolution
//   cnn_bn     cnn with BatchNorm, whose statistics are the micro-batch's
//   resnet     ResNet-20 (He et al. 2016, section 4.2) with GroupNorm: make_resnet() with three
//              stages of 16, 32 and 64 channels, three blocks each
//   resnet_bn  resnet with BatchNorm
//   resnet18, resnet34, resnet50
//              those of torchvision, for photographs: make_torchvision_resnet()
//   resnet18_gn, resnet34_gn, resnet50_gn
//              the same with GroupNorm
//   unet       UNet (layers/unet.h) of 16, 32 and 64 channels at 28x28, 14x14 and 7x7, or with
//              another depth, each level of twice the channels at half the size: a logit for each
//              class and pixel, of one class if pixels only belong to something or not
// Parameters are named as in the nn.Sequential of the same layers in PyTorch; the names within a
// composite layer are at its declaration.
enum class ModelKind {
  mlp,
  mlp_small,
  cnn,
  cnn_gn,
  cnn_bn,
  resnet,
  resnet_bn,
  resnet18,
  resnet34,
  resnet50,
  resnet18_gn,
  resnet34_gn,
  resnet50_gn,
  unet
};

namespace detail {

// The models by their names on the command line.
const std::map<std::string, ModelKind>& model_names();
std::string name(ModelKind kind);

}  // namespace detail

// Which network, and its sizes.
struct ModelOptions {
  ModelKind kind = ModelKind::mlp;
  double dropout = 0;  // before the last layer
  InitScheme init = InitScheme::kaiming;
  double width = 1;   // factor on hidden sizes and channels, which are rounded to multiples of 8
  int64_t depth = 3;  // of unet: levels
  Shape image{1, 28, 28};  // [C, H, W]
  int64_t classes = 10;
};

namespace detail {

// Options for the sizes above; unet has one class, and torchvision's models are for ImageNet: a
// thousand classes of images [3, 224, 224].
ModelOptions default_model(ModelKind kind);

// A hidden layer's size or a convolution's channels at this width: a multiple of GroupNorm's 8.
int64_t scaled(int64_t size, double width);

}  // namespace detail

// Throws Error for options out of range and for images that are too small for the model.
std::unique_ptr<Layer> make_model(const ModelOptions& options);
ModelFactory model_factory(const ModelOptions& options);

// A perceptron with these layer sizes and relu between: {784, 256, 10}.
std::unique_ptr<Sequential> make_mlp(std::span<const int64_t> sizes, double dropout = 0,
                                     InitScheme init = InitScheme::kaiming);

// A residual network: 3x3 convolution from in_channels to channels[0], norm and relu; for each
// entry of `channels` a stage of BasicBlocks, the first of which halves the image (except in the
// first stage); global average pool; linear. Throws Error unless there are a stage and a block.
std::unique_ptr<Sequential> make_resnet(std::span<const int64_t> channels, int64_t blocks,
                                        NormKind norm, double dropout = 0,
                                        InitScheme init = InitScheme::kaiming,
                                        int64_t in_channels = 1, int64_t classes = 10);

// torchvision's resnet18, resnet34 or resnet50 (He et al. 2016, table 1), for `kind`: a 7x7
// convolution of stride 2, a norm, relu, a 3x3 max-pool of stride 2; four stages of BasicBlocks
// with 64, 128, 256 and 512 channels, or of Bottlenecks with four times as many, the first of which
// halves the image (except in the first stage); global average pool; linear. `width` is a factor on
// the 64. Norms are BatchNorms, or GroupNorms of 32 groups (Wu & He 2018), as with torchvision's
// `norm_layer`; 32 need not divide the channels of other widths, where groups are fewer.
// Parameters and buffers are named as torchvision's: conv1, bn1, layer1.0.conv1, ..., fc. With
// InitScheme::kaiming they are drawn as its own: filters from N(0, 2/fan_out), fc as nn.Linear.
std::unique_ptr<Sequential> make_torchvision_resnet(const ModelOptions& options);

}  // namespace accrue
