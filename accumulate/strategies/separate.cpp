// Strategy separate: the loop that people write by hand, and the baseline of this library. Each
// micro-batch's gradient is computed in the parameters' arena and added to a second arena, the sum.
// 8 P bytes of gradients in float32, and 12 P bytes moved for each micro-batch. Because the
// gradient is apart from the sum, it can be judged and left out (OnOverflow::drop_micro_batch).

#include "accumulate/accumulate.h"
#include "accumulate/accumulator.h"
#include "accumulate/squared_norm.h"

namespace accrue {
namespace {

class Separate : public Accumulator {
 public:
  Separate(Optimizer& optimizer, const StepDecision& decision, const WindowOptions& options)
      : Accumulator(optimizer, decision, options) {
    const MemoryScope scope("window");
    const Tensor& gradients = parameters().gradients();
    sum_ = Tensor::full(gradients.shape(), 0, gradients.dtype(), gradients.device(),
                        Category::gradients);
  }

  void begin(const WeightedLoss&) override { parameters().zero_grad(); }
  bool adds_loss_in_backward() const override { return !drops(); }
  void end(const WeightedLoss& weighted) override {
    if (drops()) judge(weighted);
    if (weighted.is_first) sum_.fill(0);
    for (const auto [begin, end] : claimed())
      accumulate(sum_.slice(begin, end).view(), parameters().gradients().slice(begin, end).view(),
                 1, drops() ? accepted_of(state()) : View{});
    for (size_t i = 0; i < progress_.reached.size(); ++i)
      progress_.reached[i] |= char(entry(i).claimed());
  }

  Tensor sum() const override { return sum_; }

 private:
  bool drops() const { return options_.on_overflow == OnOverflow::drop_micro_batch; }
  // The ranges that the current micro-batch has reached.
  std::vector<Parameters::Range> claimed() const {
    return parameters().ranges([](const Parameters::Entry& entry) { return entry.claimed(); });
  }
  // Decides whether the micro-batch whose gradient has just been computed counts.
  void judge(const WeightedLoss& weighted) {
    float beta = 0;
    for (const auto [begin, end] : claimed()) {
      squared_norm({decision_.partials.view(), beta},
                   parameters().gradients().slice(begin, end).view());
      beta = 1;
    }
    if (beta == 0) decision_.partials.fill(0);
    judge_micro_batch(state(), decision_.partials.view(), weighted.loss.value.view(),
                      weighted.weight.of_loss(), weighted.weight.samples,
                      weighted.is_first ? 0 : 1);
  }

  Tensor sum_;
};

}  // namespace

const StrategyFacts detail::separate_strategy{.name = "separate",
                                              .help = "a second buffer and an adding pass",
                                              .judges_micro_batches = true,
                                              .make = Accumulator::make<Separate>};

}  // namespace accrue
