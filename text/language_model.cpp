#include "text/language_model.h"

namespace accrue {

Tensor LanguageModel::forward(Tensor tokens, const Pass& pass) const {
  const Tensor x = states({tokens, positions_of(tokens)}, pass);
  return linear(x.reshape({tokens.numel(), x.size(2)}), head(), {});
}

Tensor positions_of(const Tensor& tokens) {
  const int64_t N = tokens.size(0), T = tokens.size(1);
  std::vector<int32_t> positions(static_cast<size_t>(N * T));
  if (!is_meta(tokens.device()))
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = int32_t(i % size_t(T));
  return Tensor::from(positions, {N, T}, tokens.device());
}

Projection::Projection(int64_t in, int64_t out, double deviation, Bias bias, Transpose layout)
    : in_(in),
      out_(out),
      layout_(layout),
      weight_{
          layout == Transpose::yes ? Shape{out, in} : Shape{in, out}, Init::normal(deviation), {}},
      bias_{{out}, Init::constant(0), {}} {
  declare("weight", weight_);
  if (bias == Bias::learned) declare("bias", bias_);
}

Tensor Projection::forward(Tensor x, const Pass&) const {
  const Shape y = x.shape().with(x.shape().rank() - 1, out_);
  const int64_t rows = x.numel() / in_;
  return linear(std::move(x).reshape({rows, in_}), weight_.tensor, bias_.tensor, Activation::none,
                layout_)
      .reshape(y);
}

std::string Projection::describe() const { return fmt::format("linear {} -> {}", in_, out_); }

}  // namespace accrue
