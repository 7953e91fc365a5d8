#pragma once

#include <vector>

#include "layers/layers.h"

namespace accrue {

// The kind of norm after a convolution.
enum class NormKind { none, group, batch, instance };

namespace detail {

// Makes a GroupNorm, BatchNorm, or InstanceNorm, with the activation that follows it. A GroupNorm
// has gcd(groups, channels) groups, so that they divide the channels. Throws Error for
// NormKind::none, and for other norms than a BatchNorm of images with channels last.
constexpr int64_t usual_groups = 8;
std::unique_ptr<Layer> make_norm(NormKind kind, int64_t channels, int64_t groups = usual_groups,
                                 Activation activation = Activation::none,
                                 Channels layout = Channels::first);

// Throws Error unless what a block adds up has one shape: add() repeats the elements of a smaller
// operand.
void check_residual(std::string_view block, const Tensor& y, const Tensor& x);

// A residual block of He et al. 2016 ("Deep residual learning for image recognition"), with n
// convolutions without bias, each with a norm (NormKind::none: with bias, and without a norm):
//   y = relu(norm_n(conv_n(... relu(norm_1(conv_1(x))))) + shortcut(x))
// x is [N, in, H, W], y [N, out, H / stride, W / stride] rounded up, or with channels last
// [N, H, W, in] and [N, H / stride, W / stride, out]. One of the convolutions has
// the stride. The shortcut is x itself if in == out and stride == 1, otherwise a 1x1 convolution of
// that stride with a norm.
// Parameters are named as in torchvision: conv1, bn1, conv2, bn2 (also where the norms are
// GroupNorms), ..., downsample.0, downsample.1.
class ResidualBlock : public Layer {
 public:
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 protected:
  ResidualBlock(NormKind norm, InitScheme init, int64_t groups, Channels layout)
      : norm_(norm), init_(init), groups_(groups), layout_(layout) {}
  // Constructors call these for each convolution, of which all but the last have relu, then for the
  // shortcut.
  void add_convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                       Activation activation);
  void add_shortcut(int64_t in, int64_t out, int64_t stride);

 private:
  struct Convolution {
    std::unique_ptr<Conv2d> conv;
    std::unique_ptr<Layer> norm;  // null: there is none
  };
  Bias bias() const;

  const NormKind norm_;
  const InitScheme init_;
  const int64_t groups_;  // of GroupNorms
  const Channels layout_;
  std::vector<Convolution> layers_;
  std::unique_ptr<Sequential> downsample_;  // null: the shortcut is x
};

}  // namespace detail

// Two 3x3 convolutions. The first has the stride.
class BasicBlock : public detail::ResidualBlock {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, NormKind norm,
             InitScheme init = InitScheme::kaiming, int64_t groups = detail::usual_groups,
             Channels layout = Channels::first);
};

// Three convolutions of 1x1, 3x3 and 1x1, with out / 4, out / 4 and out channels. The 3x3
// convolution has the stride, as in torchvision; in He et al. it is the first convolution.
class Bottleneck : public detail::ResidualBlock {
 public:
  Bottleneck(int64_t in, int64_t out, int64_t stride, NormKind norm,
             InitScheme init = InitScheme::kaiming, int64_t groups = detail::usual_groups,
             Channels layout = Channels::first);
};

namespace detail {

// A 3x3 convolution without bias, GroupNorm and relu, twice; [N, in, H, W] to [N, out, H, W].
// Parameters are named as in the nn.Sequential of these six layers: 0, 1, 3, 4.
class DoubleConv : public Sequential {
 public:
  DoubleConv(int64_t in, int64_t out, InitScheme init = InitScheme::kaiming);
  // convolve() and normalize() are the two parts of half 0 or 1. forward(x) runs both halves, each
  // as normalize(convolve(x)).
  Tensor convolve(size_t half, Tensor x, const Pass& pass) const {
    return forward(std::move(x), pass, 2 * half, 2 * half + 1);
  }
  // convolve(0, x) for the concatenation of the parts' channels.
  Tensor convolve_joined(const std::vector<Tensor>& parts, const Pass& pass) const {
    return first_->joined(parts, pass);
  }
  Tensor normalize(size_t half, Tensor x, const Pass& pass) const {
    return forward(std::move(x), pass, 2 * half + 1, 2 * half + 2);
  }
  const GroupNorm& norm(size_t half) const { return *norms_.at(half); }
  std::string describe() const override;

 private:
  int64_t in_, out_;
  const Conv2d* first_ = nullptr;
  std::vector<const GroupNorm*> norms_;  // of each half
};

}  // namespace detail

}  // namespace accrue
