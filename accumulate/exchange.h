#pragma once

#include <memory>

#include "accumulate/accumulator.h"
#include "accumulate/ranks.h"

namespace accrue::detail {

// The communication between processes that share a window, around an accumulator of any strategy.
// This base class is for a single process and does nothing.
class Exchange {
 public:
  explicit Exchange(const Parameters& parameters) : elements_(parameters.values().numel()) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual bool has_others() const { return false; }
  // True if the device's work may be recorded and replayed. It may not if an exchange passes
  // through the host.
  virtual bool records_micro_step(bool) const { return true; }
  virtual bool records_step() const { return true; }

  // These two surround the backward of a micro-batch. Completed gradients are exchanged while
  // backward runs in two cases: if `is_last`, which says that this process has no further
  // micro-batch in the window, and if the accumulator steps in backward.
  virtual void begin_backward(bool) {}
  virtual void end_backward() {}
  // Takes part in the other processes' backward, in a process that has no micro-batch in this
  // window.
  virtual void join_backward() {}

  // Adds up the window's counts over the processes, in the window's state, too. Returns the sums.
  virtual WindowCounts add_counts(const WindowCounts& own) { return own; }
  // Adds up the accumulator's sums.
  virtual void add_gradients() {}
  // Adds up the partial sums of squares that each process computed for its shard().
  virtual void add_norms() {}
  virtual Parameters::Range shard() const { return {0, elements_}; }
  // Sends the weights that only this process has changed to the others.
  virtual void share_values() {}
  // mean_buffers() makes each module buffer the mean over the processes, weighted by the samples
  // that each kept in its window, as kept_samples() returns them.
  virtual double kept_samples(const WindowCounts&) const { return 0; }
  virtual void mean_buffers(double) {}

  // True once the processes have begun to add up gradients of the current window.
  virtual bool is_under_way() const { return false; }
  // Throws Error if is_under_way() was true for a window that was to leave no trace.
  static void check_was_not(bool under_way);
  virtual void start_next() {}

 private:
  const int64_t elements_;
};

// Throws Error for an optimizer that owns neither all parameters nor exactly this process's shard.
// The accumulator, its decision and the ranks must outlive the result.
std::unique_ptr<Exchange> make_exchange(Accumulator& accumulator, const StepDecision& decision,
                                        const WindowOptions& options);

}  // namespace accrue::detail
