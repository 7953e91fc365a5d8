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

// What is known of a way in which the gradients of a window's micro-batches come together. Each
// strategy says it in the .cpp of its name in accumulate/strategies/, beside its Accumulator; all
// others ask here, and name no strategy.
struct StrategyFacts {
  std::string_view name, help;  // "step-in-backward", and what it does, for people

  GradientStorage storage = GradientStorage::arena;  // that of the parameters it works on
  // It never has the whole gradient: the norm is unknown, only a loss that is not finite skips a
  // window, and a window cannot be taken back.
  bool drops_gradients = false;
  // A window has one micro-batch for each rank.
  bool is_of_one_micro_batch = false;
  // It adds up in Adam's moments, and needs them whole.
  bool sums_in_moments = false;
  // Ranks cannot exchange its sum.
  bool is_for_one_process = false;
  // What the last backward of a window completes is the sum, which ranks may exchange meanwhile.
  bool has_final_gradients = false;
  // Gradients of several micro-batches that are kept may come together, in one backward.
  bool takes_joint_gradients = false;
  // It is what others are compared with: the one that plans take as the measure of cost.
  bool is_reference = false;
  // A micro-batch's gradient lies apart from the sum until it is judged.
  bool judges_micro_batches = false;
  // The split decides the result, beyond the rounding of a sum's order.
  bool split_decides = false;
  // What sets its step apart from that of one big batch: "is another optimizer". Empty if nothing
  // does; of the others a plan recommends only what was asked for.
  std::string_view differs{};

  // Throws Error for an optimizer that it cannot work with.
  std::unique_ptr<Accumulator> (*make)(Optimizer&, const StepDecision&,
                                       const WindowOptions&) = nullptr;
};

}  // namespace detail

// All strategies. A new one has its place in these three lists, in one order.
enum class Strategy { fused, separate, moments, step_in_backward, bf16_sum };

namespace detail {

extern const StrategyFacts fused_strategy, separate_strategy, moments_strategy,
    step_in_backward_strategy, bf16_sum_strategy;
inline constexpr std::array all_strategies{&fused_strategy, &separate_strategy, &moments_strategy,
                                           &step_in_backward_strategy, &bf16_sum_strategy};

inline const StrategyFacts& facts_of(Strategy strategy) {
  return *all_strategies.at(static_cast<size_t>(strategy));
}
// The one with StrategyFacts::is_reference.
inline Strategy reference_strategy() {
  size_t i = 0;
  while (!all_strategies.at(i)->is_reference) ++i;
  return static_cast<Strategy>(i);
}
inline bool drops_gradients(Strategy strategy) { return facts_of(strategy).drops_gradients; }
inline GradientStorage gradient_storage(Strategy strategy) { return facts_of(strategy).storage; }

}  // namespace detail

}  // namespace accrue
