#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/blocks.h"

namespace accrue {

// The networks of zi2zi (github.com/kaonashi-tyc/zi2zi): a generator draws a character of one font
// in the style of others, and a discriminator tells its drawings from the glyphs of these fonts.
// They follow the PyTorch port github.com/max32002/zi2zi-pytorch and have its defaults. The options
// also have the choices of the port that it is based on, github.com/EuphoriaYan/zi2zi-pytorch.

namespace detail {

// How a decoder doubles height and width: a 3x3 convolution to four times the channels, followed by
// pixel_shuffle, or a transposed 4x4 convolution of stride 2.
enum class Upsampling { pixel_shuffle, transposed };
// How a decoder's output joins x, the input of its level's encoder: x + decoded, or the channels
// [x, decoded].
enum class Skip { add, concat };
// The features in which a drawing is to agree with its source, or the source with its target: the
// coarsest level's, or the coarsest level's and level 4's.
enum class Features { coarsest, two_levels };

}  // namespace detail

// The networks of zi2zi: their sizes and parts.
struct Zi2ziOptions {
  using Skip = detail::Skip;
  using Upsampling = detail::Upsampling;
  int64_t size = 256;    // H = W of the images
  int64_t channels = 1;  // of an image
  int64_t styles = 1;
  int64_t width = 64;  // channels of the finest level of either network
  int64_t embedding = 128;
  Upsampling upsampling = Upsampling::pixel_shuffle;
  Skip skip = Skip::add;
  NormKind norm = NormKind::instance;  // or batch
  bool self_attention = false;         // in the generator
  bool spectral_norm = false;          // in the discriminator
  double dropout = 0.5;                // in the generator
  InitScheme init = InitScheme::normal;
};

namespace detail {

// Level i of the generator, going down: y = attention(norm(conv(x))). conv is 4x4 of stride 2; norm
// and attention are there if the level has one. Parameters: conv.*, norm.*, attention.*.
class Zi2ziEncoder : public Layer {
 public:
  Zi2ziEncoder(const Zi2ziOptions& options, int64_t in, int64_t out, bool norm, bool attention);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  Conv2d conv_;
  std::unique_ptr<Layer> norm_, attention_;
};

// Level i, going up: y = dropout(norm(up(relu(x)))). norm and dropout are there if the level has
// one. Parameters: conv.*, norm.*.
class Zi2ziDecoder : public Layer {
 public:
  Zi2ziDecoder(const Zi2ziOptions& options, int64_t in, int64_t out, bool norm,
               std::optional<uint32_t> dropout_layer);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  Upsampling upsampling_;
  std::unique_ptr<Layer> conv_, norm_;
  std::optional<Dropout> dropout_;
};

// A U-Net that halves the image L times, at most 8, which ends at 1x1 if the size is a power of two
// up to 256. Level i has c_i = width * min(2^i, 8) channels. With x_0 the image,
//   e_i = encoder_i(x_i)         x_{i+1} = leaky_relu(e_i, 0.2)
//   d_{L-1} = decoder_{L-1}([e_{L-1}, style])       d_{i-1} = decoder_{i-1}(x_i skip d_i)
//   y = tanh(d_0).
// Here style is the row of the embedding, repeated for all pixels. The finest and the coarsest
// encoder and the finest decoder have no norm. Decoders 4 to L-2 have dropout. Encoders 2 and 3
// have self-attention if the options ask for it. With instance norm every convolution has a bias,
// with batch norm only the finest decoder's.
// Images are [N, channels, size, size], in [-1, 1]. Recompute::all and sqrt drop the activations
// inside each encoder and decoder that has a norm. sqrt also drops everything between the encoders'
// results and the drawing, and everything that features_of() computes.
// Parameters: encoder.0.conv.weight, ..., decoder.0.conv.weight, ..., style.weight.
class Zi2ziGenerator : public Layer {
 public:
  // Casts the network to a generator. Throws Error if it is none.
  static const Zi2ziGenerator& of(const Layer& network);

  // Throws Error for options out of range, and for a size that is not divisible by 8.
  explicit Zi2ziGenerator(const Zi2ziOptions& options);

  // The results of all encoders: x_i and e_{L-1}.
  struct Encoded {
    std::vector<Tensor> inputs;  // x_1, ..., x_{L-1}
    Tensor coarsest;
  };
  Encoded encode(const Tensor& x, const Pass& pass) const;
  // The drawings in these styles, i32 [N].
  Tensor draw(const Encoded& encoded, const Tensor& styles, const Pass& pass) const;
  // The drawings with these rows of the embedding, or points between rows: [N, embedding].
  Tensor draw_with(const Encoded& encoded, const Tensor& style, const Pass& pass) const;
  // Returns [N, C, h, w] with h and w of the coarsest level: e_{L-1}, or for two levels and L > 5,
  // [e_{L-1}, x_5] with x_5 resized to h x w.
  Tensor features(const Encoded& encoded, Features features) const;
  // features(encode(x)), for images that are not drawn.
  Tensor features_of(const Tensor& x, Features features, const Pass& pass) const;

  // The drawings in the first style.
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;
  const Zi2ziOptions& options() const { return options_; }
  const Embedding& style() const { return style_; }

 private:
  // The drawing, from x_1, ..., x_{L-1} and the coarsest decoder's input.
  Tensor decode(const std::vector<Tensor>& inputs, const Pass& pass) const;

  Zi2ziOptions options_;
  std::vector<std::unique_ptr<Zi2ziEncoder>> encoder_;
  std::vector<std::unique_ptr<Zi2ziDecoder>> decoder_;
  Embedding style_;
};

// Five 5x5 convolutions over source and glyph [N, 2 * channels, size, size], followed by a linear
// layer for each judgement. The first three convolutions have stride 2 and width, 2 width and 4
// width channels. The others have stride 1, and 8 width and 1 channels. All but the last are
// followed by a leaky relu of 0.2, and the second to fourth have a norm before it.
// Recompute::all drops the activations inside the convolutions that have norms. For a judgement,
// sqrt also drops everything before the linear layers.
// Parameters: conv.0 to conv.4, norm.1 to norm.3, binary, category.
class Zi2ziDiscriminator : public Layer {
 public:
  // Throws Error as the generator does.
  explicit Zi2ziDiscriminator(const Zi2ziOptions& options);

  struct Judgement {
    Tensor is_real;  // logits [N, 1]
    Tensor style;    // logits [N, styles]
  };
  Judgement judge(const Tensor& sources, const Tensor& glyphs, const Pass& pass) const;

  // The weight of the generator's adversarial loss, [1] of the parameters' dtype. It is a module
  // buffer, so taking a window back also restores it.
  const Tensor& adversarial_weight() const { return adversarial_weight_.tensor; }

  // Logits [N, 1] that source and glyph, [N, 2 * channels, size, size], are a real pair.
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  Tensor convolve(Tensor x, const Pass& pass) const;

  std::vector<std::unique_ptr<Conv2d>> conv_;
  std::vector<std::unique_ptr<Layer>> norm_;  // null where there is none
  std::optional<Linear> binary_, category_;
  Buffer adversarial_weight_;
};

}  // namespace detail

}  // namespace accrue
