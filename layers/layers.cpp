#include "layers/layers.h"

#include "core/inside.h"
#include "kernels/dropout.h"
#include "kernels/spectral_norm.h"

namespace accrue {
namespace {

// Describes a convolution by its kernel, channels, stride and padding.
std::string describe_filter(std::string_view kind, const Shape& w, int64_t in, int64_t out,
                            PerAxis stride, const Padding& padding, int64_t groups) {
  return fmt::format("{} {}x{} {} -> {}, stride {}, padding {}{}", kind, w[2], w[3], in, out,
                     stride, padding.before, groups > 1 ? fmt::format(", groups {}", groups) : "");
}

// The shape of a filter's weights from its one side to the other.
Shape filter_shape(std::string_view kind, int64_t from, int64_t to, PerAxis kernel,
                   int64_t groups) {
  check(groups > 0 && from % groups == 0 && to % groups == 0,
        "{} with channels {} and {} in {} groups: expected groups to divide both", kind, from, to,
        groups);
  return {from, to / groups, kernel.h, kernel.w};
}

std::string describe_pool(std::string_view kind, const Pool2dShape& shape) {
  return fmt::format("{} {}x{}, stride {}{}{}", kind, shape.kernel.h, shape.kernel.w, shape.stride,
                     shape.padding == 0 ? "" : fmt::format(", padding {}", shape.padding),
                     shape.ceil_mode ? ", rounded up" : "");
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

Linear::Linear(int64_t in, int64_t out, Activation activation, InitScheme scheme, WeightNorm norm)
    : Weighted({out, in}, weight_init(scheme, in, out), norm),
      activation_(activation),
      bias_{{out}, Init::lecun_uniform(in), {}} {
  declare("bias", bias_);
}

Tensor Linear::forward(Tensor x, const Pass&) const {
  const Shape rows{x.size(0), x.shape().numel(1, x.shape().rank())};
  return linear(x.reshape(rows), weight(), bias_.tensor, activation_);
}

std::string Linear::describe() const {
  return fmt::format("linear {} -> {}{}{}", weight_.shape[1], weight_.shape[0],
                     describe_activation(activation_), describe_norm());
}

Conv2d::Conv2d(int64_t in, int64_t out, PerAxis kernel, Conv2dShape shape, InitScheme scheme,
               Bias bias, WeightNorm norm)
    : Weighted(
          filter_shape("Conv2d", out, in, kernel, shape.groups),
          weight_init(scheme, in / shape.groups * kernel.h * kernel.w, out * kernel.h * kernel.w),
          norm),
      shape_(shape),
      bias_{{out}, Init::lecun_uniform(in / shape.groups * kernel.h * kernel.w), {}} {
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
         describe_norm();
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, PerAxis kernel,
                                 ConvTranspose2dShape shape, InitScheme scheme, Bias bias)
    : shape_(shape),
      weight_{
          filter_shape("ConvTranspose2d", in, out, kernel, shape.groups),
          weight_init(scheme, out / shape.groups * kernel.h * kernel.w, in * kernel.h * kernel.w),
          {}},
      bias_{{out}, Init::lecun_uniform(out / shape.groups * kernel.h * kernel.w), {}} {
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

Embedding::Embedding(int64_t rows, int64_t features)
    : weight_{{rows, features}, Init::normal(1), {}} {
  declare("weight", weight_);
}

Tensor Embedding::forward(Tensor index, const Pass&) const {
  return embedding(weight_.tensor, index);
}

std::string Embedding::describe() const {
  return fmt::format("embedding {} x {}", weight_.shape[0], weight_.shape[1]);
}

Norm::Norm(int64_t channels)
    : weight_{{channels}, Init::constant(1), {}}, bias_{{channels}, Init::constant(0), {}} {
  declare("weight", weight_);
  declare("bias", bias_);
}

Tensor LayerNorm::forward(Tensor x, const Pass&) const {
  return layer_norm(x, weight_.tensor, bias_.tensor, eps_);
}

std::string LayerNorm::describe() const { return fmt::format("layer norm {}", weight_.shape[0]); }

RmsNorm::RmsNorm(int64_t features, double eps)
    : eps_(eps), weight_{{features}, Init::constant(1), {}} {
  declare("weight", weight_);
}

Tensor RmsNorm::forward(Tensor x, const Pass&) const { return rms_norm(x, weight_.tensor, eps_); }

std::string RmsNorm::describe() const { return fmt::format("RMS norm {}", weight_.shape[0]); }

Tensor GroupNorm::forward(Tensor x, const Pass&) const {
  return group_norm(x, groups_, weight_.tensor, bias_.tensor, activation_);
}

Tensor GroupNorm::normalize(const Tensor& x, const GroupMoments& moments, const Pass& pass) const {
  return run(x.shape(), pass,
             [&] { return group_norm(x, moments, weight_.tensor, bias_.tensor, activation_); });
}

std::string GroupNorm::describe() const {
  return fmt::format("group norm, {} groups of {} channels{}", groups_, weight_.shape[0] / groups_,
                     describe_activation(activation_));
}

BatchNorm::BatchNorm(int64_t channels)
    : Norm(channels),
      running_mean_{{channels}, Init::constant(0), {}},
      running_var_{{channels}, Init::constant(1), {}} {
  declare("running_mean", running_mean_);
  declare("running_var", running_var_);
}

Tensor BatchNorm::forward(Tensor x, const Pass& pass) const {
  const bool is_fixed = weight_.fixed && bias_.fixed;
  const RunningStatistics running{.mean = running_mean_.tensor, .var = running_var_.tensor};
  if (is_fixed || !pass.training())
    return batch_norm(x, weight_.tensor, bias_.tensor, running, NormMode::eval);
  return pass.batch ? batch_norm(x, weight_.tensor, bias_.tensor, running, *pass.batch, this)
                    : batch_norm(x, weight_.tensor, bias_.tensor, running, NormMode::train);
}

std::string BatchNorm::describe() const { return fmt::format("batch norm {}", weight_.shape[0]); }

Tensor Dropout::forward(Tensor x, const Pass& pass) const {
  if (p_ == 0 || !pass.drops_out()) return x;
  const int64_t first = pass.begin * x.shape().numel(2, x.shape().rank());
  return dropout(std::move(x), p_, {pass.seed, layer_, pass.epoch, pass.samples, first});
}

std::string Dropout::describe() const { return fmt::format("dropout {}", p_); }

std::string MaxPool2d::describe() const {
  return describe_pool("max-pool", shape_) + describe_activation(activation_);
}

std::string AvgPool2d::describe() const { return describe_pool("average-pool", shape_); }

std::string AdaptiveAvgPool2d::describe() const {
  return fmt::format("adaptive average-pool to {}x{}", size_.h, size_.w);
}

std::string UpsampleNearest::describe() const {
  return fmt::format("nearest upsample x{}", factor_);
}

Tensor Flatten::forward(Tensor x, const Pass&) const {
  return x.reshape({x.size(0), x.shape().numel(1, x.shape().rank())});
}

}  // namespace accrue
