// Strategy fused: the gradients' arena is the sum. Backward kernels write dst = value + beta * dst
// into it, beta 0 in the window's first claim of a parameter and 1 in all later ones, of the same
// micro-batch or of the next. Nothing else moves: no buffer, no zeroing and no addition beside the
// kernels' own. 4 P bytes of gradients in float32.

#include "accumulate/accumulator.h"
#include "core/inside.h"

namespace accrue {
namespace {

class Fused : public Accumulator {
 public:
  using Accumulator::Accumulator;

  // Nothing is left to be done with a gradient, unless others wait for it.
  std::optional<GradHook::When> takes() const override {
    return is_watched() ? std::optional(GradHook::When::kernel) : std::nullopt;
  }
  void take(size_t parameter, Variable& leaf) override { completed(parameter, leaf.grad); }

  Tensor sum() const override { return parameters().gradients(); }

  // What has been claimed is the flag of each variable.
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
