#include "core/profile.h"

#include <algorithm>
#include <functional>

#include "core/inside.h"

namespace accrue {
namespace {

// The number of marks after which their times are read. On cuda, reading waits for the device, and
// each mark is an event.
constexpr size_t many_marks = 4096;

}  // namespace

thread_local constinit Profile* Profile::of_this_thread = nullptr;

Profile::Marks::Marks(Device device) : device_(device) {
  if (device_ == Device::cuda) cuda::synchronize();
  set(0);
}

size_t Profile::Marks::mark() {
  set(last_ + 1);
  return ++last_;
}

void Profile::Marks::set(size_t number) {
  if (device_ != Device::cuda) {
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start_;
    us_.resize(std::max(us_.size(), number + 1));
    us_[number] = us.count();
    return;
  }
  if (number == moments_.size()) moments_.push_back(std::make_unique<cuda::Moment>());
  moments_[number]->record();
}

std::vector<double> Profile::Marks::take_times() {
  std::vector<double> us(last_ + 1);
  if (device_ != Device::cuda) {
    std::copy_n(us_.begin(), us.size(), us.begin());
    us_[0] = us_[last_];
  } else {
    for (size_t i = 0; i <= last_; ++i)
      us[i] = first_us_ + 1e6 * moments_[i]->seconds_since(*moments_[0]);
    std::swap(moments_[0], moments_[last_]);
  }
  first_us_ = us.back();
  last_ = 0;
  return us;
}

Profile::Profile(Device device, int64_t traced_steps)
    : device_(device), traced_steps_(traced_steps), marks_(device) {
  check(!of_this_thread, "this thread is being profiled already");
  open_.push_back({MemoryScope::phase(), 0, 0, 0});
  of_this_thread = this;
}

Profile::~Profile() {
  if (of_this_thread == this) of_this_thread = nullptr;
}

void Profile::stop() {
  if (of_this_thread != this) return;
  of_this_thread = nullptr;
  end_part(false);
  take_times();
  std::ranges::sort(spans_, [](const Span& a, const Span& b) {
    return std::pair(a.begin_us, -a.end_us) < std::pair(b.begin_us, -b.end_us);
  });
}

std::vector<Profile::Row> Profile::rows() const {
  std::vector<Row> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater(), &Row::us);
  return rows;
}

std::vector<Profile::PhaseTime> Profile::phases() const {
  std::vector<PhaseTime> phases;
  for (const auto& [phase, time] : phases_)
    if (time.us > 0) phases.push_back(time);
  return phases;
}

double Profile::total_us() const {
  double us = 0;
  for (const auto& [phase, time] : phases_) us += time.us;
  return us;
}

Label Profile::begin_op(std::string_view op) {
  unnamed_ = kernels_.size();
  return std::exchange(op_, Label(op));
}

void Profile::name_kernels(std::string_view op) {
  for (size_t i = std::exchange(unnamed_, kernels_.size()); i < kernels_.size(); ++i)
    kernels_[i].row.op = op;
}

void Profile::begin_kernel(std::string_view kernel, Work work) {
  kernels_.push_back({.row = {MemoryScope::phase(), op_, kernel, 1, 0, work},
                      .layer = MemoryScope::label(),
                      .step = step_,
                      .micro_batch = micro_batch_,
                      .begin = 0});
  kernels_.back().begin = marks_.mark();
}

void Profile::end_kernel() { kernels_.back().end = marks_.mark(); }

void Profile::open(Phase phase) {
  end_part(false);
  open_.push_back({phase, step_, micro_batch_, part_begin_});
}

// Called by a destructor, so it ignores errors: a failure of the device shows again at its next
// use.
void Profile::close() noexcept {
  try {
    const Phase phase = open_.back().phase;
    end_part(true);
    open_.pop_back();
    // If none is left, the phase was entered before the profile.
    if (open_.empty()) open_.push_back({Phase::setup, step_, micro_batch_, part_begin_});
    if (phase == Phase::backward) ++micro_batch_;
    if (phase == Phase::step) ++step_, micro_batch_ = 0;
    if (marks_.last() >= many_marks) take_times();
  } catch (const std::exception&) {
  }
}

void Profile::end_part(bool is_last) {
  unnamed_ = kernels_.size();
  const size_t now = marks_.mark();
  parts_.push_back({open_.back(), std::exchange(part_begin_, now), now, is_last});
}

// Call this when a part has just ended.
void Profile::take_times() {
  const std::vector<double> us = marks_.take_times();
  for (const Kernel& kernel : kernels_) {
    if (kernel.end == 0) continue;
    const Row& row = kernel.row;
    const double begin = us[kernel.begin], end = us[kernel.end];
    const Row none{row.phase, row.op, row.kernel};
    Row& sum = rows_.try_emplace({row.phase, row.op, row.kernel}, none).first->second;
    ++sum.calls;
    sum.us += end - begin;
    sum.work.flops += row.work.flops;
    sum.work.bytes += row.work.bytes;
    sum.work.spared_flops += row.work.spared_flops;
    phases_[row.phase].kernels_us += end - begin;
    add({row.phase, row.op, kernel.layer, row.kernel, begin, end, row.work, kernel.step,
         kernel.micro_batch});
  }
  for (const PhasePart& part : parts_) {
    const OpenPhase& whole = part.of;
    PhaseTime& sum = phases_[whole.phase];
    sum.phase = whole.phase;
    sum.us += us[part.end] - us[part.begin];
    if (part.is_last)
      add({whole.phase,
           {},
           {},
           {},
           whole.begin_us ? *whole.begin_us : us[whole.begin],
           us[part.end],
           {},
           whole.step,
           whole.micro_batch});
  }
  for (OpenPhase& phase : open_)
    if (!phase.begin_us) phase.begin_us = us[phase.begin];
  kernels_.clear();
  parts_.clear();
  part_begin_ = unnamed_ = 0;
}

void Profile::add(Span span) {
  if (span.step >= traced_steps_) return;
  if (spans_.size() < most_spans) spans_.push_back(span);
  else ++spans_left_out_;
}

}  // namespace accrue
