#include "layers/unet.h"

#include "core/ceil_div.h"
#include "core/inside.h"
#include "kernels/crop_or_pad.h"

namespace accrue {
namespace {

int64_t finest(std::span<const int64_t> channels) {
  check(!channels.empty(), "a U-Net needs the channels of at least one level, got none");
  return channels.front();
}

}  // namespace

UNet::UNet(std::span<const int64_t> channels, double dropout, InitScheme init, int64_t in_channels,
           int64_t out_channels)
    : head_(finest(channels), out_channels, 1, {}, init) {
  for (size_t i = 0; i < channels.size(); ++i)
    encoder_.push_back(
        std::make_unique<DoubleConv>(i == 0 ? in_channels : channels[i - 1], channels[i], init));
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    up_.push_back(std::make_unique<ConvTranspose2d>(channels[i + 1], channels[i], 2,
                                                    ConvTranspose2dShape{.stride = 2}, init));
    decoder_.push_back(std::make_unique<DoubleConv>(2 * channels[i], channels[i], init));
  }
  if (dropout > 0) dropout_.emplace(dropout);
  const auto declare_list = [&](const std::string& name, auto& modules) {
    for (size_t i = 0; i < modules.size(); ++i) declare(fmt::format("{}.{}", name, i), *modules[i]);
  };
  declare_list("encoder", encoder_);
  declare_list("up", up_);
  declare_list("decoder", decoder_);
  declare("head", head_);
}

Tensor UNet::forward(Tensor x, const Pass& pass) const {
  const int64_t coarsest = int64_t{1} << up_.size();
  check(x.shape().rank() == 4, "a U-Net and images {}: expected [N, C, H, W]", x.shape());
  const int64_t H = x.size(2), W = x.size(3);
  const int64_t padded_H = round_up(H, coarsest), padded_W = round_up(W, coarsest);
  const bool is_padded = padded_H != H || padded_W != W;
  if (is_padded) {
    const MemoryScope scope("padded images");
    x = crop_or_pad(x, padded_H, padded_W);
  }
  x = level(0, std::move(x), pass, Position::outermost);
  if (dropout_) x = (*dropout_)(std::move(x), pass);
  x = head_(std::move(x), pass);
  if (!is_padded) return x;
  const MemoryScope scope("cropped logits");
  return crop_or_pad(x, H, W);
}

Tensor UNet::level(size_t i, Tensor x, const Pass& pass, Position position) const {
  using Tensors = std::vector<Tensor>;
  Pass inner = pass;
  inner.recompute = Recompute::none;
  const bool keeps_all = pass.recompute == Recompute::none;
  const auto run = [=](const Segment& segment, const Tensors& inputs, const LastOp& last) {
    return keeps_all ? last(segment(inputs)) : recompute(segment, inputs, last);
  };
  const auto norm_of = [=](const DoubleConv& block, size_t half) -> LastOp {
    return [=, &block](Tensor h) { return block.normalize(half, std::move(h), inner); };
  };
  // A block without its last norm, given a function for its first convolution. The first half is a
  // separate segment, so that backward holds the activations of only one half at a time.
  const auto body_of = [=](const DoubleConv& block, const Segment& first_convolution) -> Segment {
    return [=, &block](const Tensors& in) {
      return block.convolve(1, run(first_convolution, in, norm_of(block, 0)), inner);
    };
  };

  const DoubleConv& encoder = *encoder_[i];
  const Segment encode = body_of(
      encoder, [=, &encoder](const Tensors& in) { return encoder.convolve(0, in[0], inner); });
  const Tensor skip = run(encode, {std::move(x)}, norm_of(encoder, 1));
  if (i == up_.size()) return skip;

  Tensor coarse;
  {
    const MemoryScope scope(fmt::format("encoder.{} pooled", i));
    coarse = max_pool2d(skip, {2});
  }
  if (pass.recompute == Recompute::sqrt) {
    Pass below = pass;
    below.recompute = Recompute::all;
    coarse = recompute(
        [=, this](const Tensors& in) { return level(i + 1, in[0], below, Position::outermost); },
        {std::move(coarse)});
  } else {
    coarse = level(i + 1, std::move(coarse), pass, Position::inside);
  }

  const DoubleConv& decoder = *decoder_[i];
  const Segment decode = body_of(decoder, [=, this, &decoder](const Tensors& in) {
    return decoder.convolve_joined({in[0], (*up_[i])(in[1], inner)}, inner);
  });
  const Tensors inputs{skip, std::move(coarse)};
  const LastOp last = norm_of(decoder, 1);
  return position == Position::outermost ? last(decode(inputs)) : run(decode, inputs, last);
}

std::string UNet::describe() const {
  std::string text;
  const auto describe_list = [&](std::string_view name, const auto& modules) {
    for (size_t i = 0; i < modules.size(); ++i)
      text += fmt::format("  {}.{}  {}\n", name, i, modules[i]->describe());
  };
  describe_list("encoder", encoder_);
  describe_list("up", up_);
  describe_list("decoder", decoder_);
  return text + fmt::format("  head  {}\n", head_.describe());
}

}  // namespace accrue
