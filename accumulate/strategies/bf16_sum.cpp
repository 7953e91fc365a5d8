// Strategy bf16-sum keeps the sum in bfloat16: 2 P bytes where fused needs 4 P. Backward computes
// each parameter's gradient in float32. As soon as it is complete, it is added to the sum,
// stochastically rounded to a neighbor (accumulate_bf16.h), and dropped. So the expected sum equals
// the float32 sum, and each micro-batch adds noise of about 2^-9 of it (docs/memory.md). The step
// reads the sum directly.

#include "accumulate/accumulate_bf16.h"
#include "accumulate/accumulator.h"

namespace accrue {
namespace {

class Bf16Sum : public Accumulator {
 public:
  Bf16Sum(Optimizer& optimizer, const StepDecision& decision, const WindowOptions& options)
      : Accumulator(optimizer, decision, options) {
    const Tensor& values = parameters().values();
    check(values.dtype() == DType::f32,
          "strategy bf16-sum adds up gradients in float32: expected parameters in f32, not {}",
          name(values.dtype()));
    const MemoryScope scope("window");
    sum_ = Tensor::full(values.shape(), 0, DType::bf16, values.device(), Category::gradients);
  }

  std::optional<GradHook::When> takes() const override { return GradHook::When::kernel; }
  void take(size_t parameter, Variable& leaf) override {
    const auto [begin, end] = entry(parameter).range();
    char& reached = progress_.reached[parameter];
    accumulate_bf16({sum_.slice(begin, end).view(), reached ? 1.0f : 0.0f},
                    leaf.grad.reshape({end - begin}).view(),
                    {options_.seed, begin, decision_.outcome()});
    reached = 1;
    drop(leaf);
  }

  Tensor sum() const override { return sum_; }

 private:
  Tensor sum_;
};

}  // namespace

const StrategyFacts detail::bf16_sum_strategy{
    .name = "bf16-sum",
    .help = "gradients are added up in bfloat16, in half the memory, with stochastic rounding",
    .storage = GradientStorage::on_demand,
    .is_for_one_process = true,
    .sums_in_16_bits = true,
    .differs = "rounds the sum of gradients to bfloat16",
    .make = Accumulator::make<Bf16Sum>};

}  // namespace accrue
