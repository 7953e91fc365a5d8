#include "text/language_model.h"

#include "core/inside.h"
#include "kernels/arithmetic.h"
#include "text/lora.h"

namespace accrue {

const LanguageModel* LanguageModel::in(const Layer& network) {
  return dynamic_cast<const LanguageModel*>(&network);
}

const LanguageModel& LanguageModel::of(const Layer& network) {
  const LanguageModel* const found = in(network);
  check(found, "{} is no language model", network.describe());
  return *found;
}

Tensor LanguageModel::forward(Tensor tokens, const Pass& pass) const {
  const Tensor x = states({tokens, positions_of(tokens)}, pass);
  return linear(x.reshape({tokens.numel(), x.size(2)}), head(), {});
}

Tensor detail::positions_of(const Tensor& tokens) {
  const int64_t N = tokens.size(0), T = tokens.size(1);
  std::vector<int32_t> positions(static_cast<size_t>(N * T));
  if (!is_meta(tokens.device()))
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = int32_t(i % size_t(T));
  return Tensor::from(positions, {N, T}, tokens.device());
}

struct Projection::Adapter {
  Adapter(int64_t in, int64_t out, const LoraOptions& o, uint32_t dropout_layer)
      : a{{*o.rank, in}, Init::lecun_uniform(in), {}},
        b{{out, *o.rank}, Init::constant(0), {}},
        scale(o.scale()),
        dropout(o.dropout.value_or(0), dropout_layer) {}

  // scale * drop(x) a^T, [rows, rank]. Backward computes drop(x) again, because keeping it beside x
  // would take more memory.
  Tensor reduced(const Tensor& x, const Pass& pass) const {
    const auto product = [this, pass](Tensor dropped) {
      const int64_t in = a.shape[1];
      return linear(dropped.reshape({dropped.numel() / in, in}), a.tensor, {});
    };
    if (!dropout.is_random() || !pass.drops_out()) return accrue::scale(product(x), scale);
    return accrue::scale(recompute(
                             [=, this](const std::vector<Tensor>& inputs) {
                               return product(dropout.forward(inputs[0], pass));
                             },
                             {x}),
                         scale);
  }

  Parameter a, b;
  const double scale;
  const Dropout dropout;
};

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

Projection::~Projection() = default;

void Projection::add_adapter(const LoraOptions& options, uint32_t dropout_layer) {
  adapter_ = std::make_unique<Adapter>(in_, out_, options, dropout_layer);
  declare("lora_A.weight", adapter_->a);
  declare("lora_B.weight", adapter_->b);
}

void Projection::merge_adapter() {
  if (!adapter_) return;
  const Tensor a = adapter_->a.tensor.detach(), b = adapter_->b.tensor.detach();
  const NoGrad no_grad;
  const Tensor scaled = scale(b, adapter_->scale);
  const GradTarget sum{weight_.tensor.detach().view(), 1};
  if (layout_ == Transpose::yes)
    multiply(sum, scaled.view(), a.view(), Transpose::no, Transpose::no);
  else multiply(sum, a.view(), scaled.view(), Transpose::yes, Transpose::yes);
  b.fill(0);
}

Tensor Projection::forward(Tensor x, const Pass& pass) const {
  return compute({}, std::move(x), pass);
}

Tensor Projection::gelu(Tensor x, const Pass& pass) const {
  if (adapter_ && pass.adapters == Adapters::count) return gelu_tanh(forward(std::move(x), pass));
  const Shape shape = x.shape().with(x.shape().rank() - 1, out_);
  return linear_then(formula::GeluTanh{}, x.reshape({x.numel() / in_, in_}), weight_.tensor,
                     bias_.tensor, layout_)
      .reshape(shape);
}

Tensor Projection::add_to(Tensor a, Tensor x, const Pass& pass) const {
  if (!plans_for_cuda(x.device())) return add(std::move(a), forward(std::move(x), pass));
  return compute(std::move(a), std::move(x), pass);
}

Tensor Projection::compute(Tensor a, Tensor x, const Pass& pass) const {
  const Shape shape = x.shape().with(x.shape().rank() - 1, out_);
  const int64_t rows = x.numel() / in_;
  const bool adds = adapter_ && pass.adapters == Adapters::count;
  Tensor reduced;
  if (adds) {
    const SegmentEnd not_yet(false);
    reduced = adapter_->reduced(x, pass);
  }
  x = x.reshape({rows, in_});
  if (a.defined()) a = a.reshape({rows, out_});
  Tensor y = a.defined() ? add_linear(std::move(a), x, weight_.tensor, bias_.tensor, layout_)
                         : linear(x, weight_.tensor, bias_.tensor, Activation::none, layout_);
  if (adds) y = add_linear(std::move(y), reduced, adapter_->b.tensor);
  return y.reshape(shape);
}

std::string Projection::describe() const {
  return fmt::format("linear {} -> {}{}", in_, out_,
                     adapter_ ? fmt::format(" + LoRA {}", adapter_->a.shape[0]) : "");
}

bool Projection::is_random() const { return adapter_ && adapter_->dropout.is_random(); }

}  // namespace accrue
