#pragma once

#include <map>
#include <memory>
#include <string>

#include "layers/blocks.h"

namespace accrue {

// The networks of the program, for images of any shape [C, H, W] and any number of classes. The
// sizes below are for 28x28 images of one channel and ten classes.
//   mlp        784-512-256-128-10, relu between.
//   mlp_small  784-256-10.
//   cnn        two of (3x3 convolution, 2x2 max-pool, relu), 16 and 32 channels, then 1568-128-10;
//              H and W at least 4.
//   cnn_gn     cnn with GroupNorm after each convolution.
//   cnn_bn     cnn with BatchNorm, whose statistics are the micro-batch's.
//   resnet     ResNet-20 (He et al. 2016, section 4.2) with GroupNorm: make_resnet() with three
//              stages of 16, 32 and 64 channels, three blocks each.
//   resnet_bn  resnet with BatchNorm.
//   resnet18, resnet34, resnet50
//              torchvision's networks for photographs: make_torchvision_resnet().
//   resnet18_gn, resnet34_gn, resnet50_gn
//              the same with GroupNorm.
//   unet       UNet (layers/unet.h) of 16, 32 and 64 channels at 28x28, 14x14 and 7x7. At another
//              depth, each level has twice the channels at half the size. Gives a logit for each
//              class and pixel; a single class separates objects from background.
// Parameters are named as in PyTorch's nn.Sequential of the same layers. The declaration of a
// composite layer gives the names within it.
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
// True for networks of convolutions that have only BatchNorms as norms.
bool takes_channels_last(ModelKind kind);

}  // namespace detail

// A kind of network, and its sizes.
struct ModelOptions {
  ModelKind kind = ModelKind::mlp;
  double dropout = 0;  // before the last layer
  InitScheme init = InitScheme::kaiming;
  double width = 1;   // factor on hidden sizes and channels, which are rounded to multiples of 8
  int64_t depth = 3;  // levels of unet
  Shape image{1, 28, 28};  // [C, H, W]
  int64_t classes = 10;
  // Where the network keeps the channels of its images. Its inputs, answers and weights are the
  // same for both.
  Channels channels = Channels::first;
};

namespace detail {

// The options for the sizes above. unet has one class. torchvision's models are for ImageNet: a
// thousand classes of images [3, 224, 224].
ModelOptions default_model(ModelKind kind);

// A hidden layer's size or a convolution's channels at this width: a multiple of GroupNorm's 8.
int64_t scaled(int64_t size, double width);

}  // namespace detail

// Throws Error for options out of range, for images that are too small for the model, and for
// channels last unless detail::takes_channels_last(kind).
std::unique_ptr<Layer> make_model(const ModelOptions& options);
ModelFactory model_factory(const ModelOptions& options);

// A perceptron with these layer sizes, such as {784, 256, 10}, and relu between the layers.
std::unique_ptr<Sequential> make_mlp(std::span<const int64_t> sizes, double dropout = 0,
                                     InitScheme init = InitScheme::kaiming);

// A residual network: a 3x3 convolution from in_channels to channels[0], a norm and relu; a stage
// of BasicBlocks for each entry of `channels`; a global average pool; a linear layer. Each stage
// except the first halves the image in its first block. Throws Error unless there is at least one
// stage and one block.
std::unique_ptr<Sequential> make_resnet(std::span<const int64_t> channels, int64_t blocks,
                                        NormKind norm, double dropout = 0,
                                        InitScheme init = InitScheme::kaiming,
                                        int64_t in_channels = 1, int64_t classes = 10,
                                        Channels layout = Channels::first);

// torchvision's resnet18, resnet34 or resnet50 (He et al. 2016, table 1), according to `kind`. The
// layers are: a 7x7 convolution of stride 2, a norm, relu, and a 3x3 max-pool of stride 2; four
// stages of BasicBlocks or Bottlenecks; a global average pool; a linear layer. The stages have 64,
// 128, 256 and 512 channels, with Bottlenecks four times as many. Each stage except the first
// halves the image in its first block. `width` is a factor on the 64. Norms are BatchNorms, or
// GroupNorms of 32 groups (Wu & He 2018), as with torchvision's `norm_layer`; at other widths,
// where 32 may not divide the channels, a GroupNorm may have fewer groups.
// Parameters and buffers have torchvision's names: conv1, bn1, layer1.0.conv1, ..., fc. With
// InitScheme::kaiming they also have its initial distributions: filters N(0, 2/fan_out), and fc
// the distribution of nn.Linear.
std::unique_ptr<Sequential> make_torchvision_resnet(const ModelOptions& options);

}  // namespace accrue
