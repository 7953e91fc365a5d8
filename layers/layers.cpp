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

}  // namespace accrue
