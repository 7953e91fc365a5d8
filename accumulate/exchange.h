#pragma once

#include <memory>

#include "accumulate/accumulator.h"
#include "accumulate/ranks.h"

namespace accrue::detail {

// What the processes that share a window do together, around an accumulator of any strategy. This
// one is of a process alone, which has nothing to do.
class Exchange {
 public:
  explicit Exchange(const Parameters& parameters) : elements_(parameters.values().numel()) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual bool has_others() const { return false; }
  // True if what the device is told may be recorded and replayed: exchanges pass through the host.
  virtual bool records_micro_step(bool) const { return true; }
  virtual bool records_step() const { return true; }

  // Around the backward of a micro-batch. What that completes is exchanged while it goes on: with
  // `is_last`, which says that this process will have no other micro-batch in the window, and for
  // an accumulator that steps in backward.
  virtual void begin_backward(bool) {}
  virtual void end_backward() {}
  // Takes part in the others' backward, in a process that has no micro-batch in this window.
  virtual void join_backward() {}

  // Adds up what has come into the window, also in its state, and returns the sum.
  virtual WindowCounts add_counts(const WindowCounts& own) { return own; }
  // Adds up the accumulator's sums.
  virtual void add_gradients() {}
  // Adds up the partial sums of squares of each process's shard().
  virtual void add_norms() {}
  virtual Parameters::Range shard() const { return {0, elements_}; }
  // Sends the weights that this process alone has changed to the others.
  virtual void share_values() {}
  // Makes the module buffers the mean over the processes, weighted by the samples of the window
  // that each has kept.
  virtual double kept_samples(const WindowCounts&) const { return 0; }
  virtual void mean_buffers(double) {}

  // True once others have added up gradients of a window that is not finished.
  virtual bool is_under_way() const { return false; }
  // Throws Error if that was so of a window that was to leave no trace.
  static void check_was_not(bool under_way);
  virtual void start_next() {}

 private:
  const int64_t elements_;
};

// Throws Error for an optimizer that owns other parameters than all, or this process's shard. The
// accumulator, its decision and the ranks must outlive it.
std::unique_ptr<Exchange> make_exchange(Accumulator& accumulator, const StepDecision& decision,
                                        const WindowOptions& options);

}  // namespace accrue::detail
