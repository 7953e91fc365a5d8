#include "optim/optimizer.h"

#include "kernels/optimizer_step.h"
#include "kernels/window_state.h"

namespace accrue {
namespace {

View range_of(const Tensor& flat, Parameters::Range range) {
  return flat.slice(range.begin, range.end).view();
}

void check_in(std::string_view what, double value, double low, double below) {
  check(value >= low && value < below, "{} is {}, expected in [{}, {})", what, value, low, below);
}

class Adam : public Optimizer {
 public:
  Adam(Parameters& parameters, const AdamOptions& options, WeightDecay decay)
      : Optimizer(parameters), options_(options), decay_(decay), m_(new_state()), v_(new_state()) {
    check_in("beta1", options.beta1, 0, 1);
    check_in("beta2", options.beta2, 0, 1);
    check(options.eps > 0 && options.eps < 1, "eps is {}, expected in (0, 1)", options.eps);
    check_in("weight decay", options.weight_decay, 0, 1e9);
  }
  std::vector<std::pair<std::string, Tensor>> state() const override {
    return {{"m", m_}, {"v", v_}};
  }

 private:
  void step_range(Parameters::Range range, const Tensor& gradients, const View& steps,
                  const View& state) override {
    adam_step(range_of(parameters().values(), range), range_of(m_, range), range_of(v_, range),
              range_of(gradients, range), steps, state,
              {.beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .eps = options_.eps,
               .weight_decay = options_.weight_decay,
               .decay = decay_});
  }

  AdamOptions options_;
  WeightDecay decay_;
  Tensor m_, v_;
};

class Sgd : public Optimizer {
 public:
  Sgd(Parameters& parameters, const SgdOptions& options)
      : Optimizer(parameters), options_(options) {
    check_in("momentum", options.momentum, 0, 1);
    check_in("weight decay", options.weight_decay, 0, 1e9);
    check(!options.nesterov || options.momentum > 0, "nesterov needs a momentum above 0");
    if (options.momentum > 0) u_ = new_state();
  }
  std::vector<std::pair<std::string, Tensor>> state() const override {
    if (!u_.defined()) return {};
    return {{"momentum", u_}};
  }

 private:
  void step_range(Parameters::Range range, const Tensor& gradients, const View&,
                  const View& state) override {
    const Momentum kind = !u_.defined()       ? Momentum::none
                          : options_.nesterov ? Momentum::nesterov
                                              : Momentum::heavy_ball;
    sgd_step(range_of(parameters().values(), range), u_.defined() ? range_of(u_, range) : View{},
             range_of(gradients, range), state,
             {.momentum = options_.momentum, .weight_decay = options_.weight_decay, .kind = kind});
  }

  SgdOptions options_;
  Tensor u_;
};

}  // namespace

Optimizer::Optimizer(Parameters& parameters)
    : parameters_(parameters),
      steps_(Tensor::full({1}, 0, DType::f64, parameters.values().device(), Category::optimizer)) {}

void Optimizer::step(const Tensor& gradients, std::span<const Parameters::Range> ranges,
                     const View& state) {
  count_step(steps_.view(), state);
  for (const Parameters::Range range : ranges) step_range(range, gradients, steps_.view(), state);
}

Tensor Optimizer::new_state() const {
  const Tensor& values = parameters_.values();
  return Tensor::full(values.shape(), 0, values.dtype(), values.device(), Category::optimizer);
}

std::unique_ptr<Optimizer> adam(Parameters& parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(parameters, options, WeightDecay::l2);
}
std::unique_ptr<Optimizer> adamw(Parameters& parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(parameters, options, WeightDecay::decoupled);
}
std::unique_ptr<Optimizer> sgd(Parameters& parameters, const SgdOptions& options) {
  return std::make_unique<Sgd>(parameters, options);
}

}  // namespace accrue
