#include "layers/blocks.h"

#include "kernels/arithmetic.h"

namespace accrue {
namespace {

constexpr int64_t groups = 8;

}  // namespace

std::unique_ptr<Module> make_norm(NormKind kind, int64_t channels) {
  check(kind != NormKind::none,
        "a norm of {} channels is a group, batch or instance norm, got none", channels);
  if (kind == NormKind::batch) return std::make_unique<BatchNorm>(channels);
  if (kind == NormKind::instance) return std::make_unique<InstanceNorm>();
  return std::make_unique<GroupNorm>(groups, channels);
}

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, NormKind norm, InitScheme init)
    : conv1_(in, out, 3, {.stride = stride, .padding = 1}, init, Bias::none),
      conv2_(out, out, 3, {.padding = 1}, init, Bias::none),
      norm1_(make_norm(norm, out)),
      norm2_(make_norm(norm, out)) {
  declare("conv1", conv1_);
  declare("bn1", *norm1_);
  declare("conv2", conv2_);
  declare("bn2", *norm2_);
  if (in == out && stride == 1) return;
  downsample_ = std::make_unique<Sequential>();
  downsample_->add<Conv2d>(in, out, 1, Conv2dShape{.stride = stride}, init, Bias::none);
  downsample_->append(make_norm(norm, out));
  declare("downsample", *downsample_);
}

Tensor BasicBlock::forward(Tensor x, const Pass& pass) const {
  Tensor y = relu((*norm1_)(conv1_(x, pass), pass));
  y = (*norm2_)(conv2_(std::move(y), pass), pass);
  const Tensor shortcut = downsample_ ? (*downsample_)(std::move(x), pass) : std::move(x);
  return relu(add(std::move(y), shortcut));
}

std::string BasicBlock::describe() const {
  return fmt::format("residual block: {}, {}{}", conv1_.describe(), norm1_->describe(),
                     downsample_ ? ", projected shortcut" : "");
}

DoubleConv::DoubleConv(int64_t in, int64_t out, InitScheme init) : in_(in), out_(out) {
  for (const int64_t channels : {in, out}) {
    add<Conv2d>(channels, out, 3, Conv2dShape{.padding = 1}, init, Bias::none);
    append(make_norm(NormKind::group, out));
    add<Relu>();
  }
}

std::string DoubleConv::describe() const {
  return fmt::format("two 3x3 convolutions {} -> {}, each with group norm and relu", in_, out_);
}

}  // namespace accrue
