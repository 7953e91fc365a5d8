#pragma once

#include <optional>

#include "kernels/adaptive_pool.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/pixel_shuffle.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "kernels/resize.h"
#include "kernels/upsample.h"
#include "layers/module.h"

namespace accrue {

// A layer has parameters and a short forward. The op that it calls documents the formulas, shapes
// and errors. Parameter names and shapes are PyTorch's.

// States whether a layer adds a learned bias. A bias before a norm is useless: the norm subtracts
// it again.
enum class Bias { none, learned };

// Says what a norm learns for each channel: nothing, a factor (weight, initially 1), or also a term
// (bias, initially 0).
enum class Affine { none, scale, scale_and_shift };

// How a layer derives the weight that it multiplies by from its parameter: none takes the parameter
// as it is, spectral divides it by its largest singular value (kernels/spectral_norm.h).
enum class WeightNorm { none, spectral };

namespace detail {

// A layer whose weight may have a WeightNorm. The names for a spectral norm come from
// torch.nn.utils.spectral_norm: the parameter is weight_orig, and the buffers are weight_u and
// weight_v. Only begin_window() changes the buffers, by one power iteration. A forward is therefore
// the same for all micro-batches of a window, and in evaluation.
class Weighted : public Layer {
 protected:
  Weighted(const Shape& shape, Init init, WeightNorm norm);
  // The weight that the layer multiplies by, normalised if it has a WeightNorm.
  Tensor weight() const;
  std::string describe_norm() const;
  void on_begin_window() const override;
  Parameter weight_;

 private:
  WeightNorm norm_;
  Buffer u_, v_;
};

}  // namespace detail

// y = act(x W^T + b), kernels/linear.h, of the last dimension: x [N, ..., in], y [N, ..., out].
// weight [out, in], bias [out] if there is one. Where the last dimension is not `in`, x [N, ...] is
// taken as N rows of that many elements, y [N, out].
class Linear : public detail::Weighted {
 public:
  Linear(int64_t in, int64_t out, Activation activation = Activation::none,
         InitScheme scheme = InitScheme::kaiming, WeightNorm norm = WeightNorm::none,
         Bias bias = Bias::learned);
  Tensor forward(Tensor x, const Pass&) const override;
  // f(y) and a + y, as linear_then() and add_linear() compute them, of a layer without an
  // activation.
  Tensor then(const detail::formula::AnyPointwise& f, Tensor x, const Pass& pass) const;
  Tensor add_to(Tensor a, Tensor x, const Pass& pass) const;
  // The shape of y.
  Shape shape_of(const Shape& x) const;
  bool has_trained_bias() const { return detail::Edge(bias_.tensor).wants_grad(); }
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  bool is_of_last(const Shape& x) const;
  // [rows, in]
  Shape rows_of(const Shape& x) const;

  Activation activation_;
  Parameter bias_;
  bool has_bias_;
};

// weight [out, in / groups, kernel.h, kernel.w], bias [out] if there is one. Throws Error unless
// groups divide in and out.
class Conv2d : public detail::Weighted {
 public:
  Conv2d(int64_t in, int64_t out, detail::PerAxis kernel, Conv2dShape shape = {},
         InitScheme scheme = InitScheme::kaiming, Bias bias = Bias::learned,
         WeightNorm norm = WeightNorm::none);
  Tensor forward(Tensor x, const Pass&) const override;
  // forward() of the concatenation of the parts' channels, without making that tensor.
  Tensor joined(const std::vector<Tensor>& parts, const Pass& pass) const;
  std::string describe() const override;

 private:
  Conv2dShape shape_;
  Parameter bias_;
};

// weight [in, out / groups, kernel.h, kernel.w], bias [out] if there is one. Throws Error unless
// groups divide in and out.
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(int64_t in, int64_t out, detail::PerAxis kernel, ConvTranspose2dShape shape = {},
                  InitScheme scheme = InitScheme::kaiming, Bias bias = Bias::learned);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  ConvTranspose2dShape shape_;
  Parameter weight_, bias_;
};

// weight [rows, features]; its input is i32 of any shape [...], y [..., features]. Row `padding`,
// which may count from the end, is initially 0 and gets no gradient.
class Embedding : public Layer {
 public:
  Embedding(int64_t rows, int64_t features, std::optional<int64_t> padding = {});
  Tensor forward(Tensor index, const Pass&) const override;
  std::string describe() const override;

 private:
  Parameter weight_;
  std::optional<int64_t> padding_;
};

namespace detail {

// A norm with what `affine` says, of this shape.
class Norm : public Layer {
 protected:
  Norm(const Shape& shape, double eps, Affine affine);
  // ", eps 0.001, no weights", or nothing where all is as usual.
  std::string describe_more(Affine usual = Affine::scale_and_shift, double usual_eps = 1e-5) const;
  double eps_;
  Parameter weight_, bias_;

 private:
  Affine affine_;
};

}  // namespace detail

// layer_norm with weight and bias [features], or of `shape`: then over so many of the last
// dimensions, as one.
class LayerNorm : public detail::Norm {
 public:
  explicit LayerNorm(int64_t features, double eps = 1e-5, Affine affine = Affine::scale_and_shift)
      : LayerNorm(Shape{features}, eps, affine) {}
  explicit LayerNorm(const Shape& shape, double eps = 1e-5,
                     Affine affine = Affine::scale_and_shift);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;
};

// rms_norm with weight [features], initially 1, or with weight of `shape`: then over so many of the
// last dimensions, as one. It has no weight with Affine::none.
class RmsNorm : public detail::Norm {
 public:
  explicit RmsNorm(int64_t features, double eps = 1e-6, Affine affine = Affine::scale)
      : RmsNorm(Shape{features}, eps, affine) {}
  explicit RmsNorm(const Shape& shape, double eps = 1e-6, Affine affine = Affine::scale);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;
};

// group_norm with weight and bias [channels].
class GroupNorm : public detail::Norm {
 public:
  GroupNorm(int64_t groups, int64_t channels, Activation activation = Activation::none,
            double eps = 1e-5, Affine affine = Affine::scale_and_shift)
      : detail::Norm({channels}, eps, affine), groups_(groups), activation_(activation) {}
  Tensor forward(Tensor x, const Pass&) const override;
  // forward() in two parts: the moments of x, and the answer by moments of x or of other images.
  detail::GroupMoments moments(const Tensor& x) const {
    return detail::group_moments(x, groups_, eps_);
  }
  Tensor normalize(const Tensor& x, const detail::GroupMoments& moments, const Pass& pass) const;
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  int64_t groups_;
  Activation activation_;
};

// By default it has no scale and shift, like PyTorch's.
class InstanceNorm : public detail::Norm {
 public:
  explicit InstanceNorm(int64_t channels = 1, double eps = 1e-5, Affine affine = Affine::none,
                        Activation activation = Activation::none)
      : detail::Norm({channels}, eps, affine), activation_(activation) {}
  Tensor forward(Tensor x, const Pass&) const override {
    return instance_norm(x, weight_.tensor, bias_.tensor, eps_, activation_);
  }
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  Activation activation_;
};

// The statistics come from the micro-batch, so training depends on the split, unless the pass
// names the batch of which that is a part. A fixed BatchNorm (place()) uses the running ones and
// leaves them as they are, as in evaluation. Throws Error unless momentum is in [0, 1].
class BatchNorm : public detail::Norm {
 public:
  explicit BatchNorm(int64_t channels, double eps = 1e-5, double momentum = 0.1,
                     Affine affine = Affine::scale_and_shift,
                     Activation activation = Activation::none, Channels layout = Channels::first);
  Tensor forward(Tensor x, const Pass& pass) const override {
    return normalize(x, pass, activation_);
  }
  // The answer with relu, by one kernel, of a layer without an activation.
  Tensor with_relu(const Tensor& x, const Pass& pass) const {
    return run(x.shape(), pass, [&] { return normalize(x, pass, Activation::relu); });
  }
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  Tensor normalize(const Tensor& x, const Pass& pass, Activation activation) const;

  double momentum_;
  Activation activation_;
  Channels layout_;
  Buffer running_mean_, running_var_;
};

// kernels/dropout.h, keyed by the pass; the identity in evaluation. x [N, ...], or [N T, ...] for N
// samples of T rows. `layer` tells the dropouts of
// one model apart. It takes no place in the numbering, so the same weights load with and without
// it.
class Dropout : public Layer {
 public:
  explicit Dropout(double p, uint32_t layer = 0) : p_(p), layer_(layer) {}
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;
  int places() const override { return 0; }
  bool is_random() const override { return p_ > 0; }

 private:
  double p_;
  uint32_t layer_;
};

// stochastic_depth (kernels/dropout.h), keyed by the pass as Dropout is; the identity in
// evaluation.
class StochasticDepth : public Layer {
 public:
  explicit StochasticDepth(double p, uint32_t layer = 0) : p_(p), layer_(layer) {}
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;
  bool is_random() const override { return p_ > 0; }

 private:
  double p_;
  uint32_t layer_;
};

// max_pool2d as a layer.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(Pool2dShape shape, Activation activation = Activation::none)
      : shape_(shape), activation_(activation) {}
  Tensor forward(Tensor x, const Pass&) const override {
    return max_pool2d(x, shape_, activation_);
  }
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  Pool2dShape shape_;
  Activation activation_;
};

// avg_pool2d as a layer.
class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(Pool2dShape shape) : shape_(shape) {}
  Tensor forward(Tensor x, const Pass&) const override { return avg_pool2d(x, shape_); }
  std::string describe() const override;

 private:
  Pool2dShape shape_;
};

// adaptive_avg_pool2d as a layer.
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(detail::PerAxis size) : size_(size) {}
  Tensor forward(Tensor x, const Pass&) const override {
    return adaptive_avg_pool2d(x, size_.h, size_.w);
  }
  std::string describe() const override;

 private:
  detail::PerAxis size_;
};

// The mean of each channel, [N, C, H, W] to [N, C, 1, 1], or [N, H, W, C] to [N, 1, 1, C].
class GlobalAvgPool2d : public Layer {
 public:
  explicit GlobalAvgPool2d(Channels channels = Channels::first) : channels_(channels) {}
  Tensor forward(Tensor x, const Pass&) const override { return global_avg_pool2d(x, channels_); }
  std::string describe() const override;

 private:
  Channels channels_;
};

// upsample_nearest as a layer.
class UpsampleNearest : public Layer {
 public:
  explicit UpsampleNearest(int64_t factor) : factor_(factor) {}
  Tensor forward(Tensor x, const Pass&) const override { return upsample_nearest(x, factor_); }
  std::string describe() const override;

 private:
  int64_t factor_;
};

// To which size, or by which factors, Upsample resizes.
struct UpsampleShape {
  int64_t H = 0, W = 0;
  double rows = 0, columns = 0;
  ResizeMode mode = ResizeMode::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
};

// resize or resize_by as a layer. Throws Error unless the shape has a size or factors, and not
// both.
class Upsample : public Layer {
 public:
  explicit Upsample(UpsampleShape shape);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  UpsampleShape shape_;
};

// pixel_shuffle as a layer.
class PixelShuffle : public Layer {
 public:
  explicit PixelShuffle(int64_t factor) : factor_(factor) {}
  Tensor forward(Tensor x, const Pass&) const override { return pixel_shuffle(x, factor_); }
  std::string describe() const override { return fmt::format("pixel shuffle {}", factor_); }

 private:
  int64_t factor_;
};

// Images [N, C, H, W] as [N, H, W, C], or back. It takes no place in the numbering, so the same
// weights load with either layout.
class MoveChannels : public Layer {
 public:
  explicit MoveChannels(Channels to) : to_(to) {}
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;
  int places() const override { return 0; }

 private:
  Channels to_;
};

// Dimensions first to last as one, at no cost: all of a sample by default, [N, ...] to [N, C].
// Throws Error for first = 0, because that dimension numbers the samples.
class Flatten : public Layer {
 public:
  explicit Flatten(int first = 1, int last = -1);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  int first_, last_;
};

namespace detail {

// An activation without parameters (kernels/pointwise.h).
template <class Formula>
class PointwiseLayer : public Layer {
 public:
  Tensor forward(Tensor x, const Pass&) const override {
    return pointwise(std::move(x), Formula{});
  }
  std::string describe() const override { return std::string(Formula::name); }
};

}  // namespace detail

// The ops of kernels/pointwise.h as layers.
using Relu = detail::PointwiseLayer<detail::formula::Relu>;
using Gelu = detail::PointwiseLayer<detail::formula::Gelu>;
using GeluTanh = detail::PointwiseLayer<detail::formula::GeluTanh>;
using Sigmoid = detail::PointwiseLayer<detail::formula::Sigmoid>;
using Tanh = detail::PointwiseLayer<detail::formula::Tanh>;
using Silu = detail::PointwiseLayer<detail::formula::Silu>;

// leaky_relu as a layer.
class LeakyRelu : public Layer {
 public:
  explicit LeakyRelu(double slope = 0.01) : slope_(slope) {}
  Tensor forward(Tensor x, const Pass&) const override { return leaky_relu(std::move(x), slope_); }
  std::string describe() const override { return fmt::format("leaky relu {}", slope_); }

 private:
  double slope_;
};

}  // namespace accrue
