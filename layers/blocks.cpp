#include "layers/blocks.h"

#include <numeric>

#include "core/inside.h"
#include "kernels/arithmetic.h"

namespace accrue {

std::unique_ptr<Layer> detail::make_norm(NormKind kind, int64_t channels, int64_t groups,
                                         Activation activation, Channels layout) {
  check(kind != NormKind::none,
        "a norm of {} channels is a group, batch or instance norm, got none", channels);
  if (kind == NormKind::batch)
    return std::make_unique<BatchNorm>(channels, 1e-5, 0.1, Affine::scale_and_shift, activation,
                                       layout);
  check(layout == Channels::first,
        "a norm of {} groups in images with channels last: expected a batch norm", groups);
  if (kind == NormKind::instance)
    return std::make_unique<InstanceNorm>(1, 1e-5, Affine::none, activation);
  return std::make_unique<GroupNorm>(std::gcd(groups, channels), channels, activation);
}

void detail::check_residual(std::string_view block, const Tensor& y, const Tensor& x) {
  check(
      x.shape() == y.shape(),
      "[{}] adds {} to {}: expected one shape, because a sum would repeat elements of the smaller",
      block, x.shape(), y.shape());
}

// A convolution has a bias where no norm would subtract it again.
Bias ResidualBlock::bias() const { return norm_ == NormKind::none ? Bias::learned : Bias::none; }

void ResidualBlock::add_convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                    Activation activation) {
  const Conv2dShape shape{.stride = stride, .padding = kernel / 2, .channels = layout_};
  Convolution& layer = layers_.emplace_back();
  layer.conv = std::make_unique<Conv2d>(in, out, kernel, shape, init_, bias());
  declare(fmt::format("conv{}", layers_.size()), *layer.conv);
  if (norm_ == NormKind::none) return;
  layer.norm = make_norm(norm_, out, groups_, activation, layout_);
  declare(fmt::format("bn{}", layers_.size()), *layer.norm);
}

void ResidualBlock::add_shortcut(int64_t in, int64_t out, int64_t stride) {
  if (in == out && stride == 1) return;
  downsample_ = std::make_unique<Sequential>();
  const Conv2dShape shape{.stride = stride, .channels = layout_};
  downsample_->add<Conv2d>(in, out, 1, shape, init_, bias());
  if (norm_ != NormKind::none)
    downsample_->append(make_norm(norm_, out, groups_, Activation::none, layout_));
  declare("downsample", *downsample_);
}

Tensor ResidualBlock::forward(Tensor x, const Pass& pass) const {
  Tensor y = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    y = (*layers_[i].conv)(std::move(y), pass);
    if (layers_[i].norm) y = (*layers_[i].norm)(std::move(y), pass);
    else if (i + 1 < layers_.size()) y = relu(std::move(y));
  }
  const Tensor shortcut = downsample_ ? (*downsample_)(std::move(x), pass) : std::move(x);
  check_residual("residual block", y, shortcut);
  return add_relu(std::move(y), shortcut);
}

std::string ResidualBlock::describe() const {
  std::string convolutions;
  for (const Convolution& layer : layers_) convolutions += layer.conv->describe() + ", ";
  const Layer* const norm = layers_.back().norm.get();
  return fmt::format("residual block: {}{}{}", convolutions, norm ? norm->describe() : "no norm",
                     downsample_ ? ", projected shortcut" : "");
}

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, NormKind norm, InitScheme init,
                       int64_t groups, Channels layout)
    : ResidualBlock(norm, init, groups, layout) {
  add_convolution(in, out, 3, stride, Activation::relu);
  add_convolution(out, out, 3, 1, Activation::none);
  add_shortcut(in, out, stride);
}

Bottleneck::Bottleneck(int64_t in, int64_t out, int64_t stride, NormKind norm, InitScheme init,
                       int64_t groups, Channels layout)
    : ResidualBlock(norm, init, groups, layout) {
  check(out % 4 == 0, "a bottleneck to {} channels: expected a multiple of 4", out);
  add_convolution(in, out / 4, 1, 1, Activation::relu);
  add_convolution(out / 4, out / 4, 3, stride, Activation::relu);
  add_convolution(out / 4, out, 1, 1, Activation::none);
  add_shortcut(in, out, stride);
}

DoubleConv::DoubleConv(int64_t in, int64_t out, InitScheme init) : in_(in), out_(out) {
  for (const int64_t channels : {in, out}) {
    const auto& conv = add<Conv2d>(channels, out, 3, Conv2dShape{.padding = 1}, init, Bias::none);
    if (!first_) first_ = &conv;
    norms_.push_back(&add<GroupNorm>(usual_groups, out, Activation::relu));
  }
}

std::string DoubleConv::describe() const {
  return fmt::format("two 3x3 convolutions {} -> {}, each with group norm and relu", in_, out_);
}

}  // namespace accrue
