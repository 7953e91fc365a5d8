// Strategy moments: Adam's moments are the sum (AdamA, kernels/step/optimizer_step.h). Each
// parameter's gradient is folded into them and dropped as soon as it is complete, so only a few
// gradients exist at a time: 0 P bytes. This is another optimizer than Adam, because v accumulates
// sum_i g_i^2. A window cannot be taken back. Each gradient is folded as a share of a number of
// samples, which must be known beforehand.

#include "accumulate/accumulator.h"
#include "core/inside.h"

namespace accrue {
namespace {

class IntoMoments : public Accumulator {
 public:
  IntoMoments(Optimizer& optimizer, const StepDecision& decision, const WindowOptions& options)
      : Accumulator(optimizer, decision, options) {
    check(optimizer.folds(),
          "strategy moments folds gradients into Adam's moments: expected adam or adamw");
    check(optimizer.owns_all(),
          "strategy moments folds gradients into Adam's moments, but an optimizer that owns a "
          "shard lacks most of them: expected one that owns all, or another strategy");
    decision.partials.fill(0);
  }

  void begin(const WeightedLoss& weighted) override {
    check(
        !weighted.weight.counts_parts(),
        "strategy moments folds each gradient as its share of the window, which is known "
        "beforehand for losses that are means over samples alone, not over some of their pixels or "
        "tokens: expected another strategy");
  }
  int64_t divisor(int64_t expected_samples) const override { return expected_samples; }
  std::optional<GradHook::When> takes() const override { return GradHook::When::kernel; }
  void take(size_t parameter, Variable& leaf) override {
    fold(parameter, leaf.grad.view(), 1 / options_.loss_scale.initial);
    drop(leaf);
  }
  void end(const WeightedLoss&) override { progress_.touched = true; }

  void step(Parameters::Range range) override {
    optimizer_.step_folded(range, decision_.outcome());
  }
  void check_whole(const WindowCounts& window) const override {
    check(window.samples == window.expected_samples,
          "step() of a window of {} samples, whose gradients were folded as shares of {}: expect() "
          "the size of a short window before its first micro-batch",
          window.samples, window.expected_samples);
  }
  void check_outcome(const StepOutcome& outcome) const override {
    check(outcome.skipped == Skipped::no,
          "the loss of a window after step {} is not finite, and strategy moments has folded its "
          "gradients into the moments, which cannot be undone: check the data, lower the learning "
          "rate, or use another strategy",
          outcome.steps);
  }

  std::vector<Tensor> sums() override {
    progress_.touched = true;
    std::vector<Tensor> moments;
    for (const auto& [name, moment] : optimizer_.state()) moments.push_back(moment);
    return moments;
  }
  // A gradient of 0 still decays the moments and adds l2 weight decay to them.
  void add_nothing(size_t parameter) override {
    fold(parameter, entry(parameter).tensor.view(), 0);  // 0 times anything
  }
  void leave_history_to_another() override { at_first_ = PastMoments::drop; }

 private:
  void fold(size_t parameter, const View& gradient, double scale) {
    char& reached = progress_.reached[parameter];
    progress_.touched = true;
    optimizer_.fold(entry(parameter).range(), gradient,
                    {.scale = scale, .past = reached ? PastMoments::stay : at_first_});
    reached = 1;
  }

  PastMoments at_first_ = PastMoments::decay;
};

}  // namespace

const StrategyFacts detail::moments_strategy{
    .name = "moments",
    .help = "gradients go into Adam's moments one by one (AdamA, another optimizer)",
    .storage = GradientStorage::on_demand,
    .drops_gradients = true,
    .sums_in_moments = true,
    .split_decides = true,  // v is a sum over the micro-batches
    .differs = "is another optimizer",
    .make = Accumulator::make<IntoMoments>};

}  // namespace accrue
