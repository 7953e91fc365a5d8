#include "core/timeline.h"

#include "core/inside.h"

namespace accrue {
namespace {

thread_local Timeline* of_this_thread = nullptr;

}  // namespace

Timeline::Timeline(Device device, int64_t steps) : device_(device), steps_(steps) {
  check(steps > 0, "a recording of {} steps: expected 1 or more", steps);
  check(!of_this_thread, "this thread's phases are being recorded already");
  open(MemoryScope::phase());
  initial_ = ledger(device).observe(this);
  of_this_thread = this;
}

void Timeline::stop() {
  if (of_this_thread != this) return;
  of_this_thread = nullptr;
  ledger(device_).observe(nullptr);
  while (!open_.empty()) close();
}

void Timeline::enter(Phase phase) {
  if (Timeline* timeline = of_this_thread) timeline->open(phase);
}

void Timeline::leave() {
  Timeline* timeline = of_this_thread;
  if (timeline && timeline->close()) timeline->stop();
}

void Timeline::add(Event event, const AllocationInfo& allocation) {
  if (allocation.bytes == 0) return;
  std::lock_guard lock(mutex_);
  changes_.push_back({now(), event, allocation});
}

void Timeline::open(Phase phase) {
  std::lock_guard lock(mutex_);
  const Moment at = now();
  if (open_.size() == 1 && spans_[open_.front()].phase == Phase::setup) {
    spans_[open_.front()].end_us = at.us;
    open_.clear();
  }
  open_.push_back(spans_.size());
  spans_.push_back({phase, at, at.us});
}

bool Timeline::close() {
  std::lock_guard lock(mutex_);
  if (open_.empty()) return false;  // the phase was entered before the recording
  Span& span = spans_[open_.back()];
  open_.pop_back();
  span.end_us = now().us;
  if (span.phase == Phase::backward) ++micro_batch_;
  if (span.phase != Phase::step) return false;
  micro_batch_ = 0;
  return ++step_ == steps_;
}

Timeline::Moment Timeline::now() const {
  const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start_;
  return {us.count(), step_, micro_batch_};
}

}  // namespace accrue
