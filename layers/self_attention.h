#pragma once

#include "layers/layers.h"

namespace accrue {

// y = x + gamma * self_attention(query(x), key(x), value(x)), with x and y [N, channels, H, W]:
// every position sees all others (Zhang et al., "Self-Attention Generative Adversarial Networks",
// 2019). query, key and value are 1x1 convolutions with bias. query and key have max(1, channels /
// 8) channels. The scores are divided by the square root of that number, which the paper does not
// do. gamma [1] is initially 0, so that y is x.
class SelfAttention : public Layer {
 public:
  explicit SelfAttention(int64_t channels, InitScheme scheme = InitScheme::kaiming);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  int64_t channels_, inner_channels_;
  Conv2d query_, key_, value_;
  Parameter gamma_;
};

}  // namespace accrue
