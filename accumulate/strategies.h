#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "core/parameters.h"

namespace accrue {

namespace detail {
class Accumulator;
struct StepDecision;
}  // namespace detail
class Optimizer;
struct WindowOptions;

namespace detail {

// The properties of a strategy, that is, of a way to combine the gradients of a window's
// micro-batches. Each strategy defines them in accumulate/strategies/, in the .cpp of its name,
// beside its Accumulator. All other code reads them here and names no strategy.
struct StrategyFacts {
  std::string_view name, help;  // "step-in-backward", and a description for people

  GradientStorage storage = GradientStorage::arena;  // of the parameters that it works on
  // It never has the whole gradient: the norm is unknown, only a loss that is not finite skips a
  // window, and a window cannot be taken back.
  bool drops_gradients = false;
  // A window has one micro-batch for each rank.
  bool is_of_one_micro_batch = false;
  // It accumulates in Adam's moments, and needs all of them.
  bool sums_in_moments = false;
  // Ranks cannot exchange its sum.
  bool is_for_one_process = false;
  // That sum is kept in 16 bits.
  bool sums_in_16_bits = false;
  // The last backward of a window completes the sum, which ranks may exchange meanwhile.
  bool has_final_gradients = false;
  // One backward may add the gradients of several micro-batches that are kept.
  bool takes_joint_gradients = false;
  // Others are compared with it: plans measure costs relative to it.
  bool is_reference = false;
  // A micro-batch's gradient is kept apart from the sum until the micro-batch is judged.
  bool judges_micro_batches = false;
  // The result depends on the split into micro-batches, by more than the rounding of sums.
  bool split_decides = false;
  // How its step differs from the step of one big batch: "is another optimizer". Empty if it does
  // not differ. A plan recommends a strategy that differs only on request.
  std::string_view differs{};

  // Throws Error for an optimizer that it cannot work with.
  std::unique_ptr<Accumulator> (*make)(Optimizer&, const StepDecision&,
                                       const WindowOptions&) = nullptr;
};

}  // namespace detail

// All strategies. Add a new one to these three lists, at the same place.
enum class Strategy { fused, separate, moments, step_in_backward, bf16_sum };

namespace detail {

extern const StrategyFacts fused_strategy, separate_strategy, moments_strategy,
    step_in_backward_strategy, bf16_sum_strategy;
inline constexpr std::array all_strategies{&fused_strategy, &separate_strategy, &moments_strategy,
                                           &step_in_backward_strategy, &bf16_sum_strategy};

inline const StrategyFacts& facts_of(Strategy strategy) {
  return *all_strategies.at(static_cast<size_t>(strategy));
}
// The strategy with StrategyFacts::is_reference.
inline Strategy reference_strategy() {
  size_t i = 0;
  while (!all_strategies.at(i)->is_reference) ++i;
  return static_cast<Strategy>(i);
}
inline bool drops_gradients(Strategy strategy) { return facts_of(strategy).drops_gradients; }
inline GradientStorage gradient_storage(Strategy strategy) { return facts_of(strategy).storage; }

}  // namespace detail

}  // namespace accrue
