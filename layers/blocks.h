#pragma once

#include "layers/layers.h"

namespace accrue {

enum class NormKind { none, group, batch, instance };

// GroupNorm of 8 groups, BatchNorm, or InstanceNorm. Throws Error for none.
std::unique_ptr<Module> make_norm(NormKind kind, int64_t channels);

// The residual block of He et al. 2016 ("Deep residual learning for image recognition"):
//   y = relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut(x))
// x [N, in, H, W], y [N, out, H / stride, W / stride] rounded up. Both convolutions are 3x3 without
// bias, conv1 has the stride. The shortcut is x itself, or, where in != out or stride != 1, a norm
// of a 1x1 convolution of that stride.
// Parameters are named as in torchvision's BasicBlock: conv1, bn1, conv2, bn2 (also where the norms
// are GroupNorms), downsample.0, downsample.1.
class BasicBlock : public Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, NormKind norm,
             InitScheme init = InitScheme::kaiming);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  Conv2d conv1_, conv2_;
  std::unique_ptr<Module> norm1_, norm2_;
  std::unique_ptr<Sequential> downsample_;  // null: the shortcut is x
};

// Twice a 3x3 convolution without bias, GroupNorm and relu; [N, in, H, W] to [N, out, H, W].
// Parameters are named as in the nn.Sequential of these six layers: 0, 1, 3, 4.
class DoubleConv : public Sequential {
 public:
  DoubleConv(int64_t in, int64_t out, InitScheme init = InitScheme::kaiming);
  std::string describe() const override;

 private:
  int64_t in_, out_;
};

}  // namespace accrue
