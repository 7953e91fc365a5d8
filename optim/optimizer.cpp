#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/inside.h"
#include "kernels/step/step_outcome.h"

namespace accrue {
namespace {

View range_of(const Tensor& flat, Parameters::Range range) {
  return flat.slice(range.begin, range.end).view();
}

void check_in(std::string_view what, double value, double low, double below) {
  check(value >= low && value < below, "{} is {}, expected in [{}, {})", what, value, low, below);
}

// The parameters of a range, with their 16-bit copy if there is one.
Weights weights_of(const Parameters& parameters, Parameters::Range range) {
  const Tensor& copies = parameters.copies();
  return {range_of(parameters.values(), range),
          copies.defined() ? range_of(copies, range) : View{}};
}

class Adam : public Optimizer {
 public:
  Adam(const Parameters& parameters, const AdamOptions& options, WeightDecay decay, Owned owned)
      : Optimizer(parameters, owned),
        scalars_{options.beta1, options.beta2, options.eps, options.weight_decay, decay},
        m_(new_state("adam m")),
        v_(new_state("adam v")) {
    check_in("beta1", options.beta1, 0, 1);
    check_in("beta2", options.beta2, 0, 1);
    const double least = dispatch_wide(parameters.values().dtype(), []<class T>() {
      return double(std::numeric_limits<T>::min());  // smaller values may become 0 in the step
    });
    check_in("eps", options.eps, least, 1);
    check_in("weight decay", options.weight_decay, 0, 1e9);
  }
  std::vector<std::pair<std::string, Tensor>> state() const override {
    return {{"m", m_}, {"v", v_}};
  }

  void begin_step(const View& outcome) override { adam_begin(progress_.view(), outcome, scalars_); }
  bool folds() const override { return true; }

 private:
  void step_part(Parameters::Range range, const View& gradient, const View& outcome,
                 Decays decays) override {
    adam_step(weights_of(parameters_, range), state_of(m_, range), state_of(v_, range), gradient,
              progress_.view(), outcome, scalars_of(decays));
  }
  void fold_part(Parameters::Range range, const View& gradient, const FoldScalars& fold,
                 Decays decays) override {
    adam_fold(state_of(m_, range), state_of(v_, range), range_of(parameters_.values(), range),
              gradient, fold, scalars_of(decays));
  }
  void step_folded_part(Parameters::Range range, const View& outcome, Decays decays) override {
    adam_folded_step(weights_of(parameters_, range), state_of(m_, range), state_of(v_, range),
                     progress_.view(), outcome, scalars_of(decays));
  }
  AdamScalars scalars_of(Decays decays) const {
    AdamScalars scalars = scalars_;
    if (decays == Decays::no) scalars.weight_decay = 0;
    return scalars;
  }

  AdamScalars scalars_;
  Tensor m_, v_;
};

class Sgd : public Optimizer {
 public:
  Sgd(const Parameters& parameters, const SgdOptions& options, Owned owned)
      : Optimizer(parameters, owned), options_(options) {
    check_in("momentum", options.momentum, 0, 1);
    check_in("weight decay", options.weight_decay, 0, 1e9);
    check(!options.nesterov || options.momentum > 0, "nesterov needs a momentum above 0");
    if (options.momentum > 0) u_ = new_state("sgd momentum");
  }
  std::vector<std::pair<std::string, Tensor>> state() const override {
    if (!u_.defined()) return {};
    return {{"momentum", u_}};
  }

 private:
  void step_part(Parameters::Range range, const View& gradient, const View& outcome,
                 Decays decays) override {
    const double decay = decays == Decays::yes ? options_.weight_decay : 0;
    const Momentum kind = !u_.defined()       ? Momentum::none
                          : options_.nesterov ? Momentum::nesterov
                                              : Momentum::heavy_ball;
    sgd_step(weights_of(parameters_, range), u_.defined() ? state_of(u_, range) : View{}, gradient,
             outcome, {.momentum = options_.momentum, .weight_decay = decay, .kind = kind});
  }

  SgdOptions options_;
  Tensor u_;
};

class Lion : public Optimizer {
 public:
  Lion(const Parameters& parameters, const LionOptions& options, Owned owned)
      : Optimizer(parameters, owned),
        scalars_{options.beta1, options.beta2, options.weight_decay},
        m_(new_state("lion m")) {
    check_in("beta1", options.beta1, 0, 1);
    check_in("beta2", options.beta2, 0, 1);
    check_in("weight decay", options.weight_decay, 0, 1e9);
  }
  std::vector<std::pair<std::string, Tensor>> state() const override { return {{"m", m_}}; }

 private:
  void step_part(Parameters::Range range, const View& gradient, const View& outcome,
                 Decays decays) override {
    LionScalars scalars = scalars_;
    if (decays == Decays::no) scalars.weight_decay = 0;
    optimizer_step(weights_of(parameters_, range), {state_of(m_, range)}, gradient, {}, outcome,
                   scalars);
  }

  LionScalars scalars_;
  Tensor m_;
};

}  // namespace

Optimizer::Optimizer(const Parameters& parameters, Owned owned)
    : parameters_(parameters),
      owned_(owned.value_or(Parameters::Range{0, parameters.values().numel()})),
      progress_(
          Tensor::full({3}, 0, DType::f64, parameters.values().device(), Category::optimizer)),
      steps_(progress_.slice(0, 1)) {}

void Optimizer::begin_step(const View& outcome) { count_step(steps_.view(), outcome); }

// Calls body(part, decays) for each part of a range, which decays as a whole or not at all.
template <class Body>
void Optimizer::for_each_part(Parameters::Range range, const Body& body) const {
  int64_t begin = range.begin;
  for (const Parameters::Range exempt : exempt_) {
    const Parameters::Range within{std::max(exempt.begin, begin), std::min(exempt.end, range.end)};
    if (within.begin >= within.end) continue;
    if (begin < within.begin) body(Parameters::Range{begin, within.begin}, Decays::yes);
    body(within, Decays::no);
    begin = within.end;
  }
  if (begin < range.end) body(Parameters::Range{begin, range.end}, Decays::yes);
}

void Optimizer::step(Parameters::Range range, const View& gradient, const View& outcome) {
  for_each_part(range, [&](Parameters::Range part, Decays decays) {
    step_part(part, gradient.part(part.begin - range.begin, part.end - range.begin), outcome,
              decays);
  });
}
void Optimizer::fold(Parameters::Range range, const View& gradient, const FoldScalars& scalars) {
  for_each_part(range, [&](Parameters::Range part, Decays decays) {
    fold_part(part, gradient.part(part.begin - range.begin, part.end - range.begin), scalars,
              decays);
  });
}
void Optimizer::step_folded(Parameters::Range range, const View& outcome) {
  for_each_part(range, [&](Parameters::Range part, Decays decays) {
    step_folded_part(part, outcome, decays);
  });
}

void Optimizer::fold_part(Parameters::Range, const View&, const FoldScalars&, Decays) {
  throw Error("this optimizer has no moments to fold gradients into");
}
void Optimizer::step_folded_part(Parameters::Range, const View&, Decays) {
  throw Error("this optimizer has no moments to step by");
}

void Optimizer::add_state(StateDict& dict, const std::string& prefix) const {
  dict.tensors.emplace_back(prefix + "steps", steps_);
  for (const auto& [name, tensor] : state()) {
    dict.tensors.emplace_back(prefix + name, tensor);
    if (!owns_all()) dict.sharded[prefix + name] = parameters_.values().numel();
  }
}

Tensor Optimizer::new_state(std::string_view name) const {
  const MemoryScope scope{Label(name)};
  const Tensor& values = parameters_.values();
  return Tensor::full({owned_.end - owned_.begin}, 0, values.dtype(), values.device(),
                      Category::optimizer);
}

View Optimizer::state_of(const Tensor& state, Parameters::Range range) const {
  return state.slice(range.begin - owned_.begin, range.end - owned_.begin).view();
}

double detail::beta2_of_half_life(double half_life_samples, int64_t effective_batch_size) {
  check(half_life_samples > 0 && std::isfinite(half_life_samples),
        "a half-life of beta2 of {} samples: expected more than 0", half_life_samples);
  return std::exp2(-double(effective_batch_size) / half_life_samples);
}

std::unique_ptr<Optimizer> adam(const Parameters& parameters, const AdamOptions& options,
                                Owned owned) {
  return std::make_unique<Adam>(parameters, options, WeightDecay::l2, owned);
}
std::unique_ptr<Optimizer> adamw(const Parameters& parameters, const AdamOptions& options,
                                 Owned owned) {
  return std::make_unique<Adam>(parameters, options, WeightDecay::decoupled, owned);
}
std::unique_ptr<Optimizer> sgd(const Parameters& parameters, const SgdOptions& options,
                               Owned owned) {
  return std::make_unique<Sgd>(parameters, options, owned);
}
std::unique_ptr<Optimizer> lion(const Parameters& parameters, const LionOptions& options,
                                Owned owned) {
  return std::make_unique<Lion>(parameters, options, owned);
}

}  // namespace accrue
