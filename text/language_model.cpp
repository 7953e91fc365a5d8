#include "text/language_model.h"

namespace accrue {

std::pair<Tensor, Tensor> KeyValueCache::append(size_t layer, const Tensor& k, const Tensor& v) {
  const int64_t end = tokens_ + k.size(1), elements = k.size(2);
  check(k.size(0) == 1 && end <= most_tokens_,
        "a cache of keys and values of {} tokens: expected one row of at most so many, not {} of "
        "{}",
        most_tokens_, k.size(0), end);
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  auto& [keys, values] = layers_[layer];
  if (!keys.defined())
    for (Tensor* each : {&keys, &values})
      *each = Tensor::empty({most_tokens_, elements}, k.dtype(), k.device());
  const auto extended = [&](const Tensor& all, const Tensor& next) {
    all.slice(tokens_, end).copy_from(next.reshape({next.size(1), elements}));
    return all.slice(0, end).reshape({1, end, elements});
  };
  return {extended(keys, k), extended(values, v)};
}

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
