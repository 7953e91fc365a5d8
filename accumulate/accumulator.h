#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "accumulate/decision.h"
#include "accumulate/strategies.h"
#include "accumulate/weighted_loss.h"
#include "accumulate/window_options.h"
#include "optim/optimizer.h"

namespace accrue::detail {

// The elements that are in both ranges; the result is empty if it ends before it begins.
inline Parameters::Range intersection(Parameters::Range a, Parameters::Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// Counts of the micro-batches and samples in a window so far: in this process, or over all
// processes that share the window.
struct WindowCounts {
  int64_t micro_batches = 0, samples = 0;
  int64_t expected_samples = 0;
  size_t terms = 0;  // loss terms of each micro-batch
};

// Combines the gradients of a window's micro-batches and steps the optimizer. Each strategy is a
// subclass in its own file in strategies/. The window (window.h) runs the backward of each
// micro-batch between begin() and end(), decides about the step, and calls step() for the ranges
// that have a gradient.
class Accumulator {
 public:
  // Throws Error unless the parameters' gradients are stored where the strategy needs them.
  Accumulator(Optimizer& optimizer, const StepDecision& decision, const WindowOptions& options);
  virtual ~Accumulator() = default;
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;
  // For StrategyFacts::make.
  template <class T>
  static std::unique_ptr<Accumulator> make(Optimizer& optimizer, const StepDecision& decision,
                                           const WindowOptions& options) {
    return std::make_unique<T>(optimizer, decision, options);
  }

  // Call this first for each micro-batch. Throws Error for a micro-batch that the strategy cannot
  // take.
  virtual void begin(const WeightedLoss&) {}
  // The gradient that a micro-batch's backward starts from: loss_scale * weight / divisor(). If
  // adds_loss_in_backward(), the backward of the loss also adds the loss and its weight to the
  // window's sums, at no cost.
  LossSeed seed(const WeightedLoss& weighted) const;
  // Calls take() for each parameter as soon as its gradient is complete, at the time that takes()
  // names. If takes() is empty, the hook is empty, too.
  GradHook hook();
  virtual std::optional<GradHook::When> takes() const { return {}; }
  virtual void take(size_t, Variable&) {}
  // Call this after backward: it adds the gradients that backward left in the parameters.
  virtual void end(const WeightedLoss&) {}
  // Backward divides the weights of a window's micro-batches by this number. The step corrects for
  // the weight that they really sum to.
  virtual int64_t divisor(int64_t expected_samples) const;
  // True if take() steps parameters. The window then makes its decision before backward.
  virtual bool steps_in_backward() const { return false; }
  virtual bool adds_loss_in_backward() const { return true; }

  // The sum of the window's gradients [P], which the step multiplies by the outcome's grad_scale.
  // Undefined if the strategy never has the whole sum.
  virtual Tensor sum() const { return {}; }
  // Writes the partial sums of squares of sum(), within these elements, to the decision's partials.
  // True if any parameter at all has a gradient.
  bool sum_squares(Parameters::Range within) const;
  // Steps the optimizer for these elements, which lie in ranges(); by default, with sum().
  virtual void step(Parameters::Range range);
  // Throw Error if the strategy cannot handle this window. They run once its counts and its outcome
  // are known.
  virtual void check_whole(const WindowCounts&) const {}
  virtual void check_outcome(const StepOutcome&) const {}

  // The ranges of the trained parameters that this window's micro-batches have reached.
  std::vector<Parameters::Range> ranges() const;
  // The effects of a window's micro-batches so far: which parameters have a gradient, and whether
  // anything has changed that outlives the window.
  struct Progress {
    std::vector<char> reached;  // 1 for each parameter with a gradient
    bool touched = false;
    auto operator<=>(const Progress&) const = default;
  };
  virtual Progress progress() const { return progress_; }
  virtual void set_progress(const Progress& progress) { progress_ = progress; }
  // Throws Error if a parameter already has a gradient, left by a backward() outside any window: it
  // would be added to the new window.
  void check_fresh() const;
  // Forgets the window.
  void start_next();
  // Throws Error if a window with this progress has changed anything that outlives it.
  static void check_untouched(const Progress& of_window);
  // Throws Error unless a window's step can be skipped.
  void check_can_skip() const;
  // sum(). Throws Error if there is none, or if it covers only a part of the parameters.
  Tensor kept_sum() const;

  // For an exchange with other processes (exchange.h): take() calls complete(n, g) when g
  // [elements], the gradient of parameter number n, is complete and not used yet.
  using Complete = std::function<void(size_t parameter, const Tensor& gradient)>;
  void on_complete(Complete complete) { complete_ = std::move(complete); }
  // The tensors [P] to add up over processes, in all ranges(), because they are sums over
  // micro-batches. By default sum(), if there is one.
  virtual std::vector<Tensor> sums();
  // Sets the part of sums() that belongs to a parameter without a gradient to a sum over no
  // micro-batches.
  virtual void add_nothing(size_t parameter);
  // Says that another process contributes the optimizer's moments from before the window.
  virtual void leave_history_to_another() {}
  // Steps one parameter with its whole gradient: in take(), or in a process that has no
  // micro-batch.
  virtual void step_parameter(size_t parameter, const Tensor& gradient);

  Optimizer& optimizer() const { return optimizer_; }
  const Parameters& parameters() const { return optimizer_.parameters(); }
  const Parameters::Entry& entry(size_t parameter) const {
    return parameters().entries()[parameter];
  }

 protected:
  void completed(size_t parameter, const Tensor& gradient) const {
    if (complete_) complete_(parameter, gradient);
  }
  bool is_watched() const { return complete_ != nullptr; }
  // Marks a gradient in the parameters' arena as part of the window's sum, or as unused.
  void set_claimed(Variable& leaf, bool claimed) const;
  // Frees a gradient whose values have been added.
  static void drop(Variable& leaf);
  View state() const { return decision_.state.view(); }

  Optimizer& optimizer_;
  const StepDecision& decision_;
  const WindowOptions options_;
  Progress progress_;

 private:
  Complete complete_;
  std::unordered_map<const Variable*, size_t> numbers_;
};

// Throws Error for options that the strategy does not allow.
std::unique_ptr<Accumulator> make_accumulator(Optimizer& optimizer, const StepDecision& decision,
                                              const WindowOptions& options);

}  // namespace accrue::detail
