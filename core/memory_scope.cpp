#include "core/memory_scope.h"

#include <array>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "core/inside.h"
#include "core/profile.h"
#include "core/timeline.h"

namespace accrue {
namespace {

thread_local Phase current_phase = Phase::setup;
thread_local Label current_label;

// The set is never destroyed, because allocations that live until the program ends have labels,
// too.
const std::string* intern(std::string_view text) {
  static std::mutex mutex;
  static auto& texts = *new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return &*texts.emplace(text).first;
}

}  // namespace

std::string_view detail::name(Phase phase) {
  static constexpr std::array<std::string_view, 6> names{"setup",    "data", "forward",
                                                         "backward", "step", "evaluate"};
  return names[static_cast<size_t>(phase)];
}

Label::Label(std::string_view text) : text_(text.empty() ? nullptr : intern(text)) {}

MemoryScope::MemoryScope(Phase phase) : MemoryScope(phase, current_label) {}
MemoryScope::MemoryScope(Label label) : MemoryScope(current_phase, label) {}

MemoryScope::MemoryScope(Phase phase, Label label)
    : phase_before_(std::exchange(current_phase, phase)),
      label_before_(std::exchange(current_label, label)) {
  if (phase == phase_before_) return;
  Timeline::enter(phase);
  Profile::enter(phase);
}

MemoryScope::~MemoryScope() {
  if (current_phase != phase_before_) {
    Profile::leave();
    Timeline::leave();
  }
  current_phase = phase_before_;
  current_label = label_before_;
}

Phase MemoryScope::phase() { return current_phase; }
Label MemoryScope::label() { return current_label; }

}  // namespace accrue
