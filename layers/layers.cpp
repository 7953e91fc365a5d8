#include "layers/layers.h"

namespace accrue {

Linear::Linear(int64_t in, int64_t out, Activation activation, InitScheme scheme)
    : activation_(activation),
      weight_{{out, in}, weight_init(scheme, in, out), {}},
      bias_{{out}, Init::lecun_uniform(in), {}} {
  declare("weight", weight_);
  declare("bias", bias_);
}

Tensor Linear::forward(Tensor x, const Pass&) const {
  const Shape rows{x.size(0), x.shape().numel(1, x.shape().rank())};
  return linear(x.reshape(rows), weight_.tensor, bias_.tensor, activation_);
}

std::string Linear::describe() const {
  return fmt::format("linear {} -> {}{}", weight_.shape[1], weight_.shape[0],
                     activation_ == Activation::relu ? " + relu" : "");
}

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, Conv2dShape shape, InitScheme scheme)
    : shape_(shape),
      weight_{{out, in, kernel, kernel},
              weight_init(scheme, in * kernel * kernel, out * kernel * kernel),
              {}},
      bias_{{out}, Init::lecun_uniform(in * kernel * kernel), {}} {
  declare("weight", weight_);
  declare("bias", bias_);
}

std::string Conv2d::describe() const {
  const Shape& w = weight_.shape;
  return fmt::format("conv {}x{} {} -> {}, stride {}, padding {}", w[2], w[3], w[1], w[0],
                     shape_.stride, shape_.padding.before);
}

}  // namespace accrue
