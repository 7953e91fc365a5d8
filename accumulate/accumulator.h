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

// The elements that are in both; none if it ends before it begins.
inline Parameters::Range intersection(Parameters::Range a, Parameters::Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// What has come into a window: in this process, or in all that share it.
struct WindowCounts {
  int64_t micro_batches = 0, samples = 0;
  int64_t expected_samples = 0;
  size_t terms = 0;  // beside each loss
};

// How the gradients of a window's micro-batches come together, and how the optimizer steps by them.
// Each strategy is one of these, in a file of its own in strategies/: lay them side by side. The
// window (window.h) runs the backward of each micro-batch between begin() and end(), decides, and
// calls step() for the ranges that have a gradient.
class Accumulator {
 public:
  // Throws Error unless the parameters' gradients are where the strategy needs them.
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

  // Comes before anything else of a micro-batch. Throws Error for one that the strategy cannot
  // take.
  virtual void begin(const WeightedLoss&) {}
  // What the backward of a micro-batch starts from, loss_scale * weight / divisor(); it also adds
  // the loss and its weight to the window's, at no cost, if adds_loss_in_backward().
  LossSeed seed(const WeightedLoss& weighted) const;
  // Calls take() for each parameter as soon as its gradient is complete in the sense of takes(); of
  // a strategy that takes none so, nothing.
  GradHook hook();
  virtual std::optional<GradHook::When> takes() const { return {}; }
  virtual void take(size_t, Variable&) {}
  // Comes after backward, and takes in what it has left in the parameters' gradients.
  virtual void end(const WeightedLoss&) {}
  // The number by which the weights of a window's micro-batches are divided in backward. The step
  // divides by what they have come to.
  virtual int64_t divisor(int64_t expected_samples) const;
  // True if take() steps parameters. The window then decides before backward.
  virtual bool steps_in_backward() const { return false; }
  virtual bool adds_loss_in_backward() const { return true; }

  // The sum of the window's gradients [P], which the step multiplies by the outcome's grad_scale.
  // Undefined if the strategy never has it whole.
  virtual Tensor sum() const { return {}; }
  // partials = those of the squares of sum(), within these elements. True if any parameter at all
  // has a gradient.
  bool sum_squares(Parameters::Range within) const;
  // Steps the optimizer in these elements of ranges(); by default, by sum().
  virtual void step(Parameters::Range range);
  // Throws Error for a window that the strategy should not have taken in, now that its size and its
  // outcome are known.
  virtual void check_whole(const WindowCounts&) const {}
  virtual void check_outcome(const StepOutcome&) const {}

  // The ranges of the trained parameters that a micro-batch of this window has reached.
  std::vector<Parameters::Range> ranges() const;
  // What a window's micro-batches have done so far: which parameters they have reached, and whether
  // anything has changed that lasts longer than the window.
  struct Progress {
    std::vector<char> reached;  // 1 for each parameter with a gradient
    bool touched = false;
    auto operator<=>(const Progress&) const = default;
  };
  virtual Progress progress() const { return progress_; }
  virtual void set_progress(const Progress& progress) { progress_ = progress; }
  // Throws Error if a parameter has a gradient already, which would join a window that begins: that
  // of a backward() of somebody's own.
  void check_fresh() const;
  // Forgets the window.
  void start_next();
  // Throws Error if that left traces of it.
  static void check_untouched(const Progress& of_window);
  // Throws Error unless a window's step can be skipped.
  void check_can_skip() const;
  // sum(). Throws Error if there is none, or of a part of the parameters alone.
  Tensor kept_sum() const;

  // For an exchange with other processes (exchange.h). complete(n, g) is called in take() when g
  // [elements], the gradient of parameter number n, is complete, and before it is used.
  using Complete = std::function<void(size_t parameter, const Tensor& gradient)>;
  void on_complete(Complete complete) { complete_ = std::move(complete); }
  // What is a sum over micro-batches, and so over processes, in all ranges(): tensors [P].
  // By default sum(), if there is one.
  virtual std::vector<Tensor> sums();
  // Makes the part of sums() of a parameter that no micro-batch has reached the sum of nothing.
  virtual void add_nothing(size_t parameter);
  // Says that another process counts what the optimizer's moments were before the window.
  virtual void leave_history_to_another() {}
  // Steps one parameter by its whole gradient, in take() or for a process without a micro-batch.
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
  // Says that a gradient in the parameters' arena belongs to the window's sum, or to none.
  void set_claimed(Variable& leaf, bool claimed) const;
  // Gives back the memory of a gradient that has been taken in.
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
