// Strategy step-in-backward: no sum at all, for windows of one micro-batch. Each parameter is
// stepped and its gradient dropped as soon as the last op that contributes to it has been
// differentiated: 0 P bytes of gradients, and the same bits as a step after backward. The factors
// of the step are therefore decided before backward, from the loss alone.

#include "accumulate/accumulator.h"
#include "core/inside.h"

namespace accrue {
namespace {

class InBackward : public Accumulator {
 public:
  InBackward(Optimizer& optimizer, const StepDecision& decision, const WindowOptions& options)
      : Accumulator(optimizer, decision, options) {
    decision.partials.fill(0);
  }

  bool steps_in_backward() const override { return true; }
  void begin(const WeightedLoss& weighted) override {
    check(weighted.is_first,
          "strategy step-in-backward steps during the backward of a window's only micro-batch: "
          "expected 1 micro-batch, or another strategy");
    progress_.touched = true;
  }
  bool adds_loss_in_backward() const override { return false; }
  std::optional<GradHook::When> takes() const override { return GradHook::When::op; }
  void take(size_t parameter, Variable& leaf) override {
    const Tensor gradient = leaf.grad.reshape({leaf.grad.numel()});
    completed(parameter, gradient);
    step_parameter(parameter, gradient);
    drop(leaf);
  }
  void step_parameter(size_t parameter, const Tensor& gradient) override {
    const Parameters::Range whole = entry(parameter).range();
    const auto [begin, end] = intersection(whole, optimizer_.owned());
    if (begin < end)
      optimizer_.step({begin, end}, gradient.slice(begin - whole.begin, end - whole.begin).view(),
                      decision_.outcome());
    progress_.reached[parameter] = 1;
    progress_.touched = true;
  }

  void step(Parameters::Range) override {}
};

}  // namespace

const StrategyFacts detail::step_in_backward_strategy{
    .name = "step-in-backward",
    .help = "parameters are stepped one by one, without accumulation",
    .storage = GradientStorage::on_demand,
    .drops_gradients = true,
    .is_of_one_micro_batch = true,
    .make = Accumulator::make<InBackward>};

}  // namespace accrue
