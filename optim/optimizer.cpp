#include "optim/optimizer.h"

#include "kernels/optimizer_step.h"

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
  void step_range(Parameters::Range range, const Tensor& gradients, double lr, double grad_scale,
                  int64_t step) override {
    adam_step(range_of(parameters().values(), range), range_of(gradients, range),
              range_of(m_, range), range_of(v_, range),
              {.lr = lr,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .eps = options_.eps,
               .weight_decay = options_.weight_decay,
               .decay = decay_,
               .step = step,
               .grad_scale = grad_scale});
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
  void step_range(Parameters::Range range, const Tensor& gradients, double lr, double grad_scale,
                  int64_t) override {
    const Momentum kind = !u_.defined()       ? Momentum::none
                          : options_.nesterov ? Momentum::nesterov
                                              : Momentum::heavy_ball;
    sgd_step(range_of(parameters().values(), range), range_of(gradients, range),
             u_.defined() ? range_of(u_, range) : View{},
             {.lr = lr,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .kind = kind,
              .grad_scale = grad_scale});
  }

  SgdOptions options_;
  Tensor u_;
};

}  // namespace

void Optimizer::step(const Tensor& gradients, std::span<const Parameters::Range> ranges, double lr,
                     double grad_scale) {
  ++steps_;
  for (const Parameters::Range range : ranges) step_range(range, gradients, lr, grad_scale, steps_);
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
