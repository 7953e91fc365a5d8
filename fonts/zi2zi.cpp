#include "fonts/zi2zi.h"

#include "core/inside.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/pixel_shuffle.h"
#include "layers/self_attention.h"

namespace accrue {
namespace {

constexpr double slope = 0.2;
constexpr size_t most_levels = 8;
// With images 256 wide, these levels have 32x32 and 16x16 positions.
constexpr size_t first_attention = 2, last_attention = 3;
constexpr size_t first_dropout = 4;
// The weight until the first window has a loss.
constexpr double first_adversarial_weight = 0.25;

const Zi2ziOptions& checked(const Zi2ziOptions& o) {
  check(o.size >= 16 && o.size % 8 == 0,
        "zi2zi of images {}x{}: expected a height and width of at least 16, divisible by 8", o.size,
        o.size);
  check(o.channels > 0 && o.styles > 0 && o.width > 0 && o.embedding > 0,
        "zi2zi with {} channels an image, {} styles, width {} and an embedding of {}: expected at "
        "least 1 of each",
        o.channels, o.styles, o.width, o.embedding);
  check(o.norm == NormKind::instance || o.norm == NormKind::batch,
        "zi2zi has instance norm or batch norm, expected one of them");
  return o;
}

size_t levels_of(int64_t size) {
  size_t levels = 0;
  for (; size > 1 && size % 2 == 0 && levels < most_levels; size /= 2) ++levels;
  return levels;
}

int64_t channels_of(const Zi2ziOptions& options, size_t level) {
  return options.width * std::min<int64_t>(int64_t{1} << level, 8);
}

// Both norms would remove a bias again. The ports still have one before an instance norm.
Bias bias_before_norm(const Zi2ziOptions& options) {
  return options.norm == NormKind::batch ? Bias::none : Bias::learned;
}

std::string describe_list(std::string_view name, const auto& modules) {
  std::string text;
  for (size_t i = 0; i < modules.size(); ++i)
    text += fmt::format("  {}.{}  {}\n", name, i, modules[i]->describe());
  return text;
}

// norm(level(x)). Unless pass.recompute is none, backward computes the level again, and from it the
// norm. It does not without a norm, because the level keeps only its input.
Tensor run_level(const Segment& level, const std::unique_ptr<Layer>& norm, Tensor x,
                 const Pass& pass) {
  const std::vector<Tensor> in{std::move(x)};
  if (!norm) return level(in);
  const LastOp last = [norm = norm.get(), pass](Tensor h) { return (*norm)(std::move(h), pass); };
  return pass.recompute == Recompute::none ? last(level(in)) : recompute(level, in, last);
}

// Runs several levels. With Recompute::sqrt, backward computes all of them again, level by level.
using Levels = std::function<Tensor(const std::vector<Tensor>& inputs, const Pass& pass)>;
Tensor run_levels(const Levels& levels, const std::vector<Tensor>& inputs, const Pass& pass) {
  if (pass.recompute != Recompute::sqrt) return levels(inputs, pass);
  Pass inner = pass;
  inner.recompute = Recompute::all;
  return recompute([=](const std::vector<Tensor>& in) { return levels(in, inner); }, inputs);
}

std::string and_more(const std::unique_ptr<Layer>& module) {
  return module ? ", " + module->describe() : "";
}

}  // namespace

Zi2ziEncoder::Zi2ziEncoder(const Zi2ziOptions& options, int64_t in, int64_t out, bool norm,
                           bool attention)
    : conv_(in, out, 4, {.stride = 2, .padding = 1}, options.init, bias_before_norm(options)) {
  declare("conv", conv_);
  if (norm) declare("norm", *(norm_ = make_norm(options.norm, out)));
  if (attention)
    declare("attention", *(attention_ = std::make_unique<SelfAttention>(out, options.init)));
}

Tensor Zi2ziEncoder::forward(Tensor x, const Pass& pass) const {
  const Segment convolve = [this, pass](const std::vector<Tensor>& in) {
    return conv_(in[0], pass);
  };
  if (!attention_) return run_level(convolve, norm_, std::move(x), pass);
  const Segment all = [=, this](const std::vector<Tensor>& in) {
    return (*attention_)((*norm_)(convolve(in), pass), pass);
  };
  return pass.recompute == Recompute::none ? all({std::move(x)}) : recompute(all, {std::move(x)});
}

std::string Zi2ziEncoder::describe() const {
  return conv_.describe() + and_more(norm_) + and_more(attention_);
}

Zi2ziDecoder::Zi2ziDecoder(const Zi2ziOptions& options, int64_t in, int64_t out, bool norm,
                           std::optional<uint32_t> dropout_layer)
    : upsampling_(options.upsampling) {
  const Bias bias = norm ? bias_before_norm(options) : Bias::learned;
  if (upsampling_ == Upsampling::pixel_shuffle)
    conv_ = std::make_unique<Conv2d>(in, 4 * out, 3, Conv2dShape{.padding = 1}, options.init, bias);
  else
    conv_ = std::make_unique<ConvTranspose2d>(
        in, out, 4, ConvTranspose2dShape{.stride = 2, .padding = 1}, options.init, bias);
  declare("conv", *conv_);
  if (norm) declare("norm", *(norm_ = make_norm(options.norm, out)));
  if (dropout_layer && options.dropout > 0) {
    dropout_.emplace(options.dropout, *dropout_layer);
    declare("dropout", *dropout_);
  }
}

Tensor Zi2ziDecoder::forward(Tensor x, const Pass& pass) const {
  x = relu(std::move(x));
  const Segment up = [this, pass, label = MemoryScope::label()](const std::vector<Tensor>& in) {
    const MemoryScope scope(label);
    const Tensor y = (*conv_)(in[0], pass);
    return upsampling_ == Upsampling::pixel_shuffle ? pixel_shuffle(y, 2) : y;
  };
  Tensor y = run_level(up, norm_, std::move(x), pass);
  return dropout_ ? (*dropout_)(std::move(y), pass) : y;
}

std::string Zi2ziDecoder::describe() const {
  return fmt::format("relu, {}{}{}{}", conv_->describe(),
                     upsampling_ == Upsampling::pixel_shuffle ? ", pixel shuffle 2" : "",
                     and_more(norm_), dropout_ ? ", " + dropout_->describe() : "");
}

const Zi2ziGenerator& Zi2ziGenerator::of(const Layer& network) {
  const auto* const found = dynamic_cast<const Zi2ziGenerator*>(&network);
  check(found, "{} is no generator of zi2zi", network.describe());
  return *found;
}

Zi2ziGenerator::Zi2ziGenerator(const Zi2ziOptions& options)
    : options_(checked(options)), style_(options.styles, options.embedding) {
  const size_t L = levels_of(options.size);
  for (size_t i = 0; i < L; ++i) {
    const int64_t finer = i == 0 ? options.channels : channels_of(options, i - 1);
    const int64_t own = channels_of(options, i);
    const bool coarsest = i + 1 == L, inner = i > 0 && !coarsest;
    const bool attention =
        options.self_attention && inner && first_attention <= i && i <= last_attention;
    encoder_.push_back(std::make_unique<Zi2ziEncoder>(options, finer, own, inner, attention));
    const int64_t in =
        coarsest ? own + options.embedding : (options.skip == Skip::concat ? 2 * own : own);
    const auto dropout_layer =
        inner && i >= first_dropout ? std::optional(uint32_t(i)) : std::nullopt;
    decoder_.push_back(std::make_unique<Zi2ziDecoder>(options, in, finer, i > 0, dropout_layer));
  }
  for (size_t i = 0; i < L; ++i) declare(fmt::format("encoder.{}", i), *encoder_[i]);
  for (size_t i = 0; i < L; ++i) declare(fmt::format("decoder.{}", i), *decoder_[i]);
  declare("style", style_);
}

Zi2ziGenerator::Encoded Zi2ziGenerator::encode(const Tensor& x, const Pass& pass) const {
  check(x.shape().rank() == 4 && x.size(1) == options_.channels && x.size(2) == options_.size &&
            x.size(3) == options_.size,
        "zi2zi for images of {} channels, {}x{}, got {}", options_.channels, options_.size,
        options_.size, x.shape());
  Encoded result;
  Tensor level = x;
  for (size_t i = 0; i < encoder_.size(); ++i) {
    Tensor e = (*encoder_[i])(std::move(level), pass);
    if (i + 1 == encoder_.size()) result.coarsest = std::move(e);
    else result.inputs.push_back(level = leaky_relu(std::move(e), slope));
  }
  return result;
}

Tensor Zi2ziGenerator::draw(const Encoded& encoded, const Tensor& styles, const Pass& pass) const {
  return draw_with(encoded, style_(styles, pass), pass);
}

Tensor Zi2ziGenerator::draw_with(const Encoded& encoded, const Tensor& style,
                                 const Pass& pass) const {
  const int64_t side = encoded.coarsest.size(2);
  const Tensor pixel = style.reshape({style.size(0), options_.embedding, 1, 1});
  std::vector<Tensor> inputs = encoded.inputs;
  inputs.push_back(
      concat({encoded.coarsest, side == 1 ? pixel : upsample_nearest(pixel, side)}, 1));
  return run_levels([this](const auto& in, const Pass& inner) { return decode(in, inner); }, inputs,
                    pass);
}

Tensor Zi2ziGenerator::decode(const std::vector<Tensor>& inputs, const Pass& pass) const {
  Tensor d = inputs.back();
  for (size_t i = decoder_.size(); i-- > 0;) {
    d = (*decoder_[i])(std::move(d), pass);
    if (i == 0) break;
    const Tensor& x = inputs[i - 1];
    d = options_.skip == Skip::add ? add(std::move(d), x) : concat({x, d}, 1);
  }
  return tanh(std::move(d));
}

Tensor Zi2ziGenerator::features(const Encoded& encoded, Features features) const {
  constexpr size_t second = 4;  // of inputs: x_5
  const Tensor& coarsest = encoded.coarsest;
  if (features == Features::coarsest || encoded.inputs.size() <= second) return coarsest;
  return concat(
      {coarsest, resize_nearest(encoded.inputs[second], coarsest.size(2), coarsest.size(3))}, 1);
}

Tensor Zi2ziGenerator::features_of(const Tensor& x, Features which, const Pass& pass) const {
  return run_levels(
      [this, which](const auto& in, const Pass& inner) {
        return features(encode(in[0], inner), which);
      },
      {x}, pass);
}

Tensor Zi2ziGenerator::forward(Tensor x, const Pass& pass) const {
  const Tensor styles =
      Tensor::from(std::vector<int32_t>(size_t(x.size(0))), {x.size(0)}, x.device());
  return draw(encode(x, pass), styles, pass);
}

std::string Zi2ziGenerator::describe() const {
  return describe_list("encoder", encoder_) + describe_list("decoder", decoder_) +
         fmt::format("  style  {}\n", style_.describe());
}

Zi2ziDiscriminator::Zi2ziDiscriminator(const Zi2ziOptions& options)
    : adversarial_weight_{{1}, Init::constant(first_adversarial_weight), {}} {
  checked(options);
  const WeightNorm weight_norm = options.spectral_norm ? WeightNorm::spectral : WeightNorm::none;
  const int64_t w = options.width;
  const std::array<int64_t, 6> channels{2 * options.channels, w, 2 * w, 4 * w, 8 * w, 1};
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    const bool norm = 1 <= i && i <= 3;
    conv_.push_back(std::make_unique<Conv2d>(
        channels[i], channels[i + 1], 5, Conv2dShape{.stride = i < 3 ? 2 : 1, .padding = 2},
        options.init, norm ? bias_before_norm(options) : Bias::learned, weight_norm));
    norm_.push_back(norm ? make_norm(options.norm, channels[i + 1]) : nullptr);
    declare(fmt::format("conv.{}", i), *conv_[i]);
    if (norm) declare(fmt::format("norm.{}", i), *norm_[i]);
  }
  const int64_t positions = (options.size / 8) * (options.size / 8);
  binary_.emplace(positions, 1, Activation::none, options.init, weight_norm);
  category_.emplace(positions, options.styles, Activation::none, options.init, weight_norm);
  declare("binary", *binary_);
  declare("category", *category_);
  declare("adversarial_weight", adversarial_weight_);
}

Tensor Zi2ziDiscriminator::convolve(Tensor x, const Pass& pass) const {
  for (size_t i = 0; i < conv_.size(); ++i) {
    const Segment convolve = [this, i, pass](const std::vector<Tensor>& in) {
      return (*conv_[i])(in[0], pass);
    };
    x = run_level(convolve, norm_[i], std::move(x), pass);
    if (i + 1 < conv_.size()) x = leaky_relu(std::move(x), slope);
  }
  return x;
}

Zi2ziDiscriminator::Judgement Zi2ziDiscriminator::judge(const Tensor& sources, const Tensor& glyphs,
                                                        const Pass& pass) const {
  const Tensor features = run_levels(
      [this](const auto& in, const Pass& inner) { return convolve(concat(in, 1), inner); },
      {sources, glyphs}, pass);
  return {(*binary_)(features, pass), (*category_)(features, pass)};
}

Tensor Zi2ziDiscriminator::forward(Tensor x, const Pass& pass) const {
  return (*binary_)(convolve(std::move(x), pass), pass);
}

std::string Zi2ziDiscriminator::describe() const {
  std::string text;
  for (size_t i = 0; i < conv_.size(); ++i)
    text += fmt::format("  conv.{}  {}{}\n", i, conv_[i]->describe(), and_more(norm_[i]));
  return text +
         fmt::format("  binary  {}\n  category  {}\n", binary_->describe(), category_->describe());
}

}  // namespace accrue
