#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue {

// The part of a training step that is under way, and asks for memory or takes time.
enum class Phase : uint8_t { setup, data, forward, backward, step, evaluate };
std::string_view name(Phase phase);

// A short text that is kept for good, once for all that say the same: cheap to copy and to hold.
class Label {
 public:
  Label() = default;
  Label(std::string_view text);
  Label(const char* text) : Label(std::string_view(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}

  bool empty() const { return text_ == nullptr; }
  std::string_view text() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  // Of identity, which is that of the text.
  friend auto operator<=>(const Label& a, const Label& b) = default;

 private:
  const std::string* text_ = nullptr;  // null: says nothing
};

// While alive, allocations of this thread are made in this phase and under this label. Scopes nest;
// one without a label (or phase) keeps that of the scope around it.
class MemoryScope {
 public:
  explicit MemoryScope(Phase phase);
  explicit MemoryScope(Label label);
  MemoryScope(Phase phase, Label label);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  // Those of the innermost scope of this thread; setup, and empty, outside of all.
  static Phase phase();
  static Label label();

 private:
  Phase phase_before_;
  Label label_before_;
};

}  // namespace accrue
