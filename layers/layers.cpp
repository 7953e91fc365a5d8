#include "layers/layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/inside.h"
#include "kernels/dropout.h"
#include "kernels/rearrange.h"
#include "kernels/spectral_norm.h"

namespace accrue {
namespace {

// Describes a convolution by its kernel, channels, stride and padding.
std::string describe_filter(std::string_view kind, const Shape& w, int64_t in, int64_t out,
                            PerAxis stride, const Padding& padding, int64_t groups) {
  return fmt::format("{} {}x{} {} -> {}, stride {}, padding {}{}", kind, w[2], w[3], in, out,
                     stride, padding.before, groups > 1 ? fmt::format(", groups {}", groups) : "");
}

// The weights of one filter, of which filter_shape() refuses a number of groups that is not one.
int64_t taps(int64_t channels, PerAxis kernel, int64_t groups) {
  return channels / std::max<int64_t>(groups, 1) * kernel.h * kernel.w;
}

// The shape of a layer's filters. Throws Error unless groups divide the channels on both sides.
Shape filter_shape(std::string_view kind, int64_t from, int64_t to, PerAxis kernel,
                   int64_t groups) {
  check(groups > 0 && from % groups == 0 && to % groups == 0,
        "{} with channels {} and {} in {} groups: expected groups to divide both", kind, from, to,
        groups);
  return {from, to / groups, kernel.h, kernel.w};
}

std::string_view describe_channels(Channels channels) {
  return channels == Channels::first ? "" : ", channels last";
}

std::string describe_pool(std::string_view kind, const Pool2dShape& shape) {
  return fmt::format("{} {}x{}, stride {}{}{}{}{}", kind, shape.kernel.h, shape.kernel.w,
                     shape.stride,
                     shape.padding == 0 ? "" : fmt::format(", padding {}", shape.padding),
                     shape.dilation == 1 ? "" : fmt::format(", dilation {}", shape.dilation),
                     shape.ceil_mode ? ", rounded up" : "", describe_channels(shape.channels));
}

std::string describe_activation(Activation activation) {
  return activation == Activation::none ? "" : fmt::format(" + {}", name(activation));
}

}  // namespace

Weighted::Weighted(const Shape& shape, Init init, WeightNorm norm)
    : weight_{shape, init, {}},
      norm_(norm),
      u_{{shape[0]}, Init::normal(1), {}},
      v_{{shape.numel(1, shape.rank())}, Init::constant(0), {}} {
  declare(norm == WeightNorm::none ? "weight" : "weight_orig", weight_);
  if (norm == WeightNorm::none) return;
  declare("weight_u", u_);
  declare("weight_v", v_);
}

Tensor Weighted::weight() const {
  if (norm_ == WeightNorm::none) return weight_.tensor;
  return spectral_normalize(weight_.tensor, u_.tensor, v_.tensor);
}

std::string Weighted::describe_norm() const {
  return norm_ == WeightNorm::none ? "" : ", spectral norm";
}

void Weighted::on_begin_window() const {
  if (norm_ == WeightNorm::spectral) power_iteration(u_.tensor, v_.tensor, weight_.tensor);
}

Linear::Linear(int64_t in, int64_t out, Activation activation, InitScheme scheme, WeightNorm norm,
               Bias bias)
    : Weighted({out, in}, weight_init(scheme, in, out), norm),
      activation_(activation),
      bias_{{out}, Init::lecun_uniform(in), {}},
      has_bias_(bias == Bias::learned) {
  if (has_bias_) declare("bias", bias_);
}

bool Linear::is_of_last(const Shape& x) const { return x.rank() > 2 && x[-1] == weight_.shape[1]; }

Shape Linear::rows_of(const Shape& x) const {
  const int leading = is_of_last(x) ? x.rank() - 1 : 1;
  return {x.numel(0, leading), x.numel(leading, x.rank())};
}

Shape Linear::shape_of(const Shape& x) const {
  const int64_t out = weight_.shape[0];
  return is_of_last(x) ? x.with(x.rank() - 1, out) : Shape{x[0], out};
}

Tensor Linear::forward(Tensor x, const Pass&) const {
  const Shape shape = shape_of(x.shape());
  x = x.reshape(rows_of(x.shape()));
  return linear(x, weight(), bias_.tensor, activation_).reshape(shape);
}

Tensor Linear::then(const formula::AnyPointwise& f, Tensor x, const Pass& pass) const {
  const Shape from = x.shape(), shape = shape_of(from);
  return run(from, pass, [&] {
    x = x.reshape(rows_of(from));
    return linear_then(f, x, weight(), bias_.tensor).reshape(shape);
  });
}

Tensor Linear::add_to(Tensor a, Tensor x, const Pass& pass) const {
  const Shape from = x.shape(), shape = shape_of(from);
  return run(from, pass, [&] {
    x = x.reshape(rows_of(from));
    a = a.reshape({x.size(0), weight_.shape[0]});
    return add_linear(std::move(a), x, weight(), bias_.tensor).reshape(shape);
  });
}

std::string Linear::describe() const {
  return fmt::format("linear {} -> {}{}{}{}", weight_.shape[1], weight_.shape[0],
                     has_bias_ ? "" : ", no bias", describe_activation(activation_),
                     describe_norm());
}

Conv2d::Conv2d(int64_t in, int64_t out, PerAxis kernel, Conv2dShape shape, InitScheme scheme,
               Bias bias, WeightNorm norm)
    : Weighted(filter_shape("Conv2d", out, in, kernel, shape.groups),
               weight_init(scheme, taps(in, kernel, shape.groups), out * kernel.h * kernel.w),
               norm),
      shape_(shape),
      bias_{{out}, Init::lecun_uniform(taps(in, kernel, shape.groups)), {}} {
  if (bias == Bias::learned) declare("bias", bias_);
}

Tensor Conv2d::forward(Tensor x, const Pass&) const {
  return conv2d(x, weight(), bias_.tensor, shape_);
}

Tensor Conv2d::joined(const std::vector<Tensor>& parts, const Pass& pass) const {
  const Shape x = parts.at(0).shape().with(1, weight_.shape[1] * shape_.groups);
  return run(x, pass, [&] { return conv2d(parts, weight(), bias_.tensor, shape_); });
}

std::string Conv2d::describe() const {
  const Shape& w = weight_.shape;
  return describe_filter("conv", w, w[1] * shape_.groups, w[0], shape_.stride, shape_.padding,
                         shape_.groups) +
         describe_norm() + std::string(describe_channels(shape_.channels));
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, PerAxis kernel,
                                 ConvTranspose2dShape shape, InitScheme scheme, Bias bias)
    : shape_(shape),
      weight_{filter_shape("ConvTranspose2d", in, out, kernel, shape.groups),
              weight_init(scheme, taps(out, kernel, shape.groups), in * kernel.h * kernel.w),
              {}},
      bias_{{out}, Init::lecun_uniform(taps(out, kernel, shape.groups)), {}} {
  declare("weight", weight_);
  if (bias == Bias::learned) declare("bias", bias_);
}

Tensor ConvTranspose2d::forward(Tensor x, const Pass&) const {
  return conv_transpose2d(x, weight_.tensor, bias_.tensor, shape_);
}

std::string ConvTranspose2d::describe() const {
  const Shape& w = weight_.shape;
  return describe_filter("transposed conv", w, w[0], w[1] * shape_.groups, shape_.stride,
                         shape_.padding, shape_.groups);
}

Embedding::Embedding(int64_t rows, int64_t features, std::optional<int64_t> padding)
    : weight_{{rows, features}, Init::normal(1), {}}, padding_(padding) {
  check(!padding || (-rows <= *padding && *padding < rows),
        "an embedding of {} rows has padding_idx {}: expected {} to {}", rows, padding.value_or(0),
        -rows, rows - 1);
  if (padding && *padding < 0) *padding_ += rows;
  if (padding) weight_.init.first_zero = *padding_ * features, weight_.init.zeros = features;
  declare("weight", weight_);
}

Tensor Embedding::forward(Tensor index, const Pass&) const {
  const Tensor y = embedding(weight_.tensor, index.reshape({index.numel()}), {}, padding_);
  if (index.shape().rank() == 1) return y;
  std::vector<int64_t> sizes(index.shape().sizes().begin(), index.shape().sizes().end());
  sizes.push_back(y.size(1));
  return y.reshape(Shape(sizes));
}

std::string Embedding::describe() const {
  return fmt::format("embedding {} x {}{}", weight_.shape[0], weight_.shape[1],
                     padding_ ? fmt::format(", padding {}", *padding_) : "");
}

Norm::Norm(const Shape& shape, double eps, Affine affine)
    : eps_(eps),
      weight_{shape, Init::constant(1), {}},
      bias_{shape, Init::constant(0), {}},
      affine_(affine) {
  check(eps >= 0 && eps < std::numeric_limits<double>::infinity(),
        "eps of a norm is {}: expected a number from 0", eps);
  if (affine != Affine::none) declare("weight", weight_);
  if (affine == Affine::scale_and_shift) declare("bias", bias_);
}

std::string Norm::describe_more(Affine usual, double usual_eps) const {
  const char* const learned = affine_ == usual           ? ""
                              : affine_ == Affine::none  ? ", no weights"
                              : affine_ == Affine::scale ? ", no bias"
                                                         : ", with weights";
  return (eps_ == usual_eps ? "" : fmt::format(", eps {}", eps_)) + learned;
}

LayerNorm::LayerNorm(const Shape& shape, double eps, Affine affine) : Norm(shape, eps, affine) {
  check(shape.rank() > 0 && shape.numel() > 0,
        "a layer norm over {}: expected the sizes of one or more dimensions", shape);
}

namespace {

// x with the last dimensions, which are to have the shape `own`, as one: [rows, features].
Tensor rows_of(std::string_view op, const Tensor& x, const Shape& own) {
  const Shape& shape = x.shape();
  const int kept = shape.rank() - own.rank();
  check(kept >= 0 && std::ranges::equal(shape.sizes().last(own.sizes().size()), own.sizes()),
        "[{}] x {}: expected {} as its last dimensions", op, shape, own);
  return x.reshape({shape.numel(0, kept), own.numel()});
}

Tensor as_one(const Tensor& weight) {
  return weight.defined() ? weight.reshape({weight.numel()}) : weight;
}

}  // namespace

Tensor LayerNorm::forward(Tensor x, const Pass&) const {
  const Shape &own = weight_.shape, shape = x.shape();
  if (own.rank() == 1) return layer_norm(x, weight_.tensor, bias_.tensor, eps_);
  return layer_norm(rows_of("layer_norm", x, own), as_one(weight_.tensor), as_one(bias_.tensor),
                    eps_)
      .reshape(shape);
}

std::string LayerNorm::describe() const {
  return fmt::format("layer norm {}{}", fmt::join(weight_.shape.sizes(), " x "), describe_more());
}

RmsNorm::RmsNorm(const Shape& shape, double eps, Affine affine) : Norm(shape, eps, affine) {
  check(shape.rank() > 0 && shape.numel() > 0,
        "an RMS norm over {}: expected the sizes of one or more dimensions", shape);
  check(affine != Affine::scale_and_shift, "an RMS norm has no bias: expected a scale, or nothing");
}

Tensor RmsNorm::forward(Tensor x, const Pass&) const {
  const Shape &own = weight_.shape, shape = x.shape();
  if (own.rank() == 1) return rms_norm(x, weight_.tensor, eps_);
  return rms_norm(rows_of("rms_norm", x, own), as_one(weight_.tensor), eps_).reshape(shape);
}

std::string RmsNorm::describe() const {
  return fmt::format("RMS norm {}{}", fmt::join(weight_.shape.sizes(), " x "),
                     describe_more(Affine::scale, 1e-6));
}

Tensor GroupNorm::forward(Tensor x, const Pass&) const {
  return group_norm(x, groups_, weight_.tensor, bias_.tensor, activation_, eps_);
}

Tensor GroupNorm::normalize(const Tensor& x, const GroupMoments& moments, const Pass& pass) const {
  return run(x.shape(), pass,
             [&] { return group_norm(x, moments, weight_.tensor, bias_.tensor, activation_); });
}

std::string GroupNorm::describe() const {
  return fmt::format("group norm, {} groups of {} channels{}{}", groups_,
                     weight_.shape[0] / groups_, describe_more(), describe_activation(activation_));
}

std::string InstanceNorm::describe() const {
  return "instance norm" + describe_more(Affine::none) + describe_activation(activation_);
}

BatchNorm::BatchNorm(int64_t channels, double eps, double momentum, Affine affine,
                     Activation activation, Channels layout)
    : Norm({channels}, eps, affine),
      momentum_(momentum),
      activation_(activation),
      layout_(layout),
      running_mean_{{channels}, Init::constant(0), {}},
      running_var_{{channels}, Init::constant(1), {}} {
  check(momentum >= 0 && momentum <= 1, "momentum of a batch norm is {}: expected it in [0, 1]",
        momentum);
  declare("running_mean", running_mean_);
  declare("running_var", running_var_);
}

Tensor BatchNorm::normalize(const Tensor& x, const Pass& pass, Activation activation) const {
  const bool is_fixed = weight_.fixed && bias_.fixed;
  const Tensor &gamma = weight_.tensor, &beta = bias_.tensor;
  const RunningStatistics running{running_mean_.tensor, running_var_.tensor, momentum_};
  if (is_fixed || !pass.training())
    return batch_norm(x, gamma, beta, running, NormMode::eval, eps_, activation, layout_);
  if (pass.batch)
    return batch_norm(x, gamma, beta, running, *pass.batch, this, eps_, activation, layout_);
  return batch_norm(x, gamma, beta, running, NormMode::train, eps_, activation, layout_);
}

std::string BatchNorm::describe() const {
  return fmt::format("batch norm {}{}{}{}{}", running_mean_.shape[0], describe_more(),
                     momentum_ == 0.1 ? "" : fmt::format(", momentum {}", momentum_),
                     describe_activation(activation_), describe_channels(layout_));
}

Tensor Dropout::forward(Tensor x, const Pass& pass) const {
  if (p_ == 0 || !pass.drops_out()) return x;
  // An element that pass.begin counts is x[n, t] of [N, T, ...], and a row of [N T, ...].
  const bool has_rows = pass.samples.defined() && x.size(0) != pass.samples.size(0);
  const int64_t first = pass.begin * x.shape().numel(has_rows ? 1 : 2, x.shape().rank());
  return dropout(std::move(x), p_, {pass.seed, layer_, pass.epoch, pass.samples, first});
}

std::string Dropout::describe() const { return fmt::format("dropout {}", p_); }

Tensor StochasticDepth::forward(Tensor x, const Pass& pass) const {
  if (p_ == 0 || !pass.drops_out()) return x;
  return stochastic_depth(std::move(x), p_, {pass.seed, layer_, pass.epoch, pass.samples});
}

std::string StochasticDepth::describe() const { return fmt::format("stochastic depth {}", p_); }

std::string MaxPool2d::describe() const {
  return describe_pool("max-pool", shape_) + describe_activation(activation_);
}

std::string AvgPool2d::describe() const { return describe_pool("average-pool", shape_); }

std::string AdaptiveAvgPool2d::describe() const {
  return fmt::format("adaptive average-pool to {}x{}", size_.h, size_.w);
}

std::string GlobalAvgPool2d::describe() const {
  return fmt::format("global average-pool{}", describe_channels(channels_));
}

std::string UpsampleNearest::describe() const {
  return fmt::format("nearest upsample x{}", factor_);
}

Upsample::Upsample(UpsampleShape shape) : shape_(shape) {
  const bool has_size = shape.H >= 1 && shape.W >= 1,
             has_factors = shape.rows > 0 && shape.columns > 0;
  check(
      has_size != has_factors && (has_size || (shape.H == 0 && shape.W == 0)) &&
          (has_factors || (shape.rows == 0 && shape.columns == 0)),
      "upsample to {} x {}, by {} x {}: expected a size of at least 1 x 1 or factors above 0, and "
      "not both",
      shape.H, shape.W, shape.rows, shape.columns);
}

Tensor Upsample::forward(Tensor x, const Pass&) const {
  const auto& [H, W, rows, columns, mode, coordinates] = shape_;
  return H > 0 ? resize(x, H, W, mode, coordinates)
               : resize_by(x, rows, columns, mode, coordinates);
}

std::string Upsample::describe() const {
  const auto& [H, W, rows, columns, mode, coordinates] = shape_;
  return fmt::format(
      "{} upsample {}{}", name(mode),
      H > 0 ? fmt::format("to {} x {}", H, W) : fmt::format("by {} x {}", rows, columns),
      coordinates == Coordinates::align_corners ? ", corners aligned" : "");
}

Tensor MoveChannels::forward(Tensor x, const Pass&) const {
  return to_ == Channels::last ? channels_last(x) : channels_first(x);
}

std::string MoveChannels::describe() const {
  return to_ == Channels::last ? "channels last" : "channels first";
}

Flatten::Flatten(int first, int last) : first_(first), last_(last) {
  check(first != 0, "a flatten from dimension 0, which numbers the samples: expected another");
}

Tensor Flatten::forward(Tensor x, const Pass&) const {
  if (first_ != 1 || last_ != -1) {
    check(x.shape().rank() + first_ != 0,
          "[flatten] x {} from dimension 0, which numbers the samples: expected another",
          x.shape());
    return flatten(x, first_, last_);
  }
  return x.reshape({x.size(0), x.shape().numel(1, x.shape().rank())});
}

std::string Flatten::describe() const {
  return first_ == 1 && last_ == -1 ? "flatten"
                                    : fmt::format("flatten dimensions {} to {}", first_, last_);
}

}  // namespace accrue
