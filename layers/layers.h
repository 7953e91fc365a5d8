#pragma once

#include "kernels/adaptive_pool.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/pixel_shuffle.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "kernels/upsample.h"
#include "layers/module.h"

namespace accrue {

// A layer has parameters and a short forward. The op that it calls documents the formulas, shapes
// and errors. Parameter names and shapes are PyTorch's.

// States whether a layer adds a learned bias. A bias before a norm is useless: the norm subtracts
// it again.
enum class Bias { none, learned };

// How a layer derives its weight from its parameter. `none` uses the parameter itself. `spectral`
// divides it by its largest singular value (kernels/spectral_norm.h).
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

// y = act(x W^T + b) (kernels/linear.h), with weight [out, in] and bias [out]. x [N, ...] is read
// as rows of `in` elements.
class Linear : public detail::Weighted {
 public:
  Linear(int64_t in, int64_t out, Activation activation = Activation::none,
         InitScheme scheme = InitScheme::kaiming, WeightNorm norm = WeightNorm::none);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  Activation activation_;
  Parameter bias_;
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

// weight [rows, features]; its input is i32 [N].
class Embedding : public Layer {
 public:
  Embedding(int64_t rows, int64_t features);
  Tensor forward(Tensor index, const Pass&) const override;
  std::string describe() const override;

 private:
  Parameter weight_;
};

namespace detail {

// A norm with a learned scale (weight, initially 1) and shift (bias, initially 0) per channel.
class Norm : public Layer {
 protected:
  explicit Norm(int64_t channels);
  Parameter weight_, bias_;
};

}  // namespace detail

// layer_norm with weight and bias [features].
class LayerNorm : public detail::Norm {
 public:
  explicit LayerNorm(int64_t features, double eps = 1e-5) : detail::Norm(features), eps_(eps) {}
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  double eps_;
};

// weight [features], initially 1
class RmsNorm : public Layer {
 public:
  explicit RmsNorm(int64_t features, double eps = 1e-6);
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override;

 private:
  double eps_;
  Parameter weight_;
};

// group_norm with weight and bias [channels].
class GroupNorm : public detail::Norm {
 public:
  GroupNorm(int64_t groups, int64_t channels, Activation activation = Activation::none)
      : detail::Norm(channels), groups_(groups), activation_(activation) {}
  Tensor forward(Tensor x, const Pass&) const override;
  // forward() in two parts: the moments of x, and the result for these or other moments.
  detail::GroupMoments moments(const Tensor& x) const { return detail::group_moments(x, groups_); }
  Tensor normalize(const Tensor& x, const detail::GroupMoments& moments, const Pass& pass) const;
  std::string describe() const override;
  int places() const override { return activation_ == Activation::none ? 1 : 2; }

 private:
  int64_t groups_;
  Activation activation_;
};

// instance_norm without scale and shift, the default of PyTorch's InstanceNorm2d.
class InstanceNorm : public Layer {
 public:
  Tensor forward(Tensor x, const Pass&) const override { return instance_norm(x); }
  std::string describe() const override { return "instance norm"; }
};

// batch_norm with weight and bias [channels]. The statistics come from the micro-batch, so training
// depends on the split, unless the pass names the whole batch (Pass::batch). A fixed BatchNorm
// (place()) always behaves as in evaluation: it uses the running statistics and does not change
// them.
class BatchNorm : public detail::Norm {
 public:
  explicit BatchNorm(int64_t channels);
  Tensor forward(Tensor x, const Pass& pass) const override;
  std::string describe() const override;

 private:
  Buffer running_mean_, running_var_;
};

// Dropout keyed by the pass (kernels/dropout.h), or the identity in evaluation. `layer` tells the
// dropouts of one model apart. A Dropout takes no place in the numbering, so the same weights load
// with and without it.
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

// The mean of each channel, [N, C, H, W] to [N, C, 1, 1].
class GlobalAvgPool2d : public Layer {
 public:
  Tensor forward(Tensor x, const Pass&) const override { return global_avg_pool2d(x); }
  std::string describe() const override { return "global average-pool"; }
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

// pixel_shuffle as a layer.
class PixelShuffle : public Layer {
 public:
  explicit PixelShuffle(int64_t factor) : factor_(factor) {}
  Tensor forward(Tensor x, const Pass&) const override { return pixel_shuffle(x, factor_); }
  std::string describe() const override { return fmt::format("pixel shuffle {}", factor_); }

 private:
  int64_t factor_;
};

// Reshapes [N, ...] to [N, C], at no cost.
class Flatten : public Layer {
 public:
  Tensor forward(Tensor x, const Pass&) const override;
  std::string describe() const override { return "flatten"; }
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
