#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "core/ledger.h"

namespace accrue::detail {

// Records the allocations on a device and the phases of the constructing thread. The recording ends
// after `steps` steps (scopes of Phase::step), at stop() or at destruction.
class Timeline : private LedgerObserver {
 public:
  struct Moment {
    double us;            // since construction
    int64_t step;         // steps done before
    int64_t micro_batch;  // backward passes since the last step
  };
  enum class Event { allocate, free };
  struct Change {
    Moment at;
    Event event;
    AllocationInfo allocation;
  };
  struct Span {
    Phase phase;
    Moment begin;
    double end_us;
  };

  // Throws Error if there is a recording of this device or thread already.
  Timeline(Device device, int64_t steps);
  ~Timeline() override { stop(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  // Call this on the thread that made it.
  void stop();

  // The memory in use at the start.
  const Usage& initial() const { return initial_; }
  // The allocations and frees of more than 0 bytes, in order. Complete after stop().
  const std::vector<Change>& changes() const { return changes_; }
  // The phases in the order of their beginnings; they nest. The time before the first of them is
  // Phase::setup.
  const std::vector<Span>& spans() const { return spans_; }

  // MemoryScope calls these, which tell the timeline of this thread, if there is one.
  static void enter(Phase phase);
  static void leave();

 private:
  void charging(const AllocationInfo& allocation) override { add(Event::allocate, allocation); }
  void refunding(const AllocationInfo& allocation) override { add(Event::free, allocation); }
  void add(Event event, const AllocationInfo& allocation);
  void open(Phase phase);
  // True if that was the last step.
  bool close();
  Moment now() const;

  const Device device_;
  const int64_t steps_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Usage initial_;
  std::mutex mutex_;  // guards the members below
  int64_t step_ = 0, micro_batch_ = 0;
  std::vector<Change> changes_;
  std::vector<Span> spans_;
  std::vector<size_t> open_;  // spans, the innermost last
};

}  // namespace accrue::detail
