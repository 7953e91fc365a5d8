// Strategy fused: the gradients' arena is the sum. Backward kernels write dst = value + beta * dst
// into it. beta is 0 the first time a window claims a parameter, and 1 every later time, in the
// same micro-batch or the next. There is no further buffer, zeroing or addition. 4 P bytes of
// gradients in float32.
// kernels' own. 4 P bytes of gradients in float32.

#include "accumulate/accumulator.h"
#include "core/inside.h"

namespace accrue {
namespace {

class Fused : public Accumulator {
 public:
  using Accumulator::Accumulator;

  // A gradient needs no further work unless an exchange waits for it.
  std::optional<GradHook::When> takes() const override {
    return is_watched() ? std::optional(GradHook::When::kernel) : std::nullopt;
  }
  void take(size_t parameter, Variable& leaf) override { completed(parameter, leaf.grad); }

  Tensor sum() const override { return parameters().gradients(); }

  // Each variable's own flag says whether it has been claimed.
  Progress progress() const override {
    Progress now = progress_;
    for (size_t i = 0; i < now.reached.size(); ++i) now.reached[i] = entry(i).claimed();
    return now;
  }
  void set_progress(const Progress& progress) override {
    for (size_t i = 0; i < progress.reached.size(); ++i)
      set_claimed(*entry(i).tensor.variable(), progress.reached[i] != 0);
  }
};

}  // namespace

const StrategyFacts detail::fused_strategy{.name = "fused",
                                           .help = "backward accumulates",
                                           .has_final_gradients = true,
                                           .takes_joint_gradients = true,
                                           .is_reference = true,
                                           .make = Accumulator::make<Fused>};

}  // namespace accrue
