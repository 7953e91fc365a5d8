#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue {

namespace detail {

// The current part of a training step. Memory and time are charged to it.
enum class Phase : uint8_t { setup, data, forward, backward, step, evaluate };
std::string_view name(Phase phase);

// A short text. Each distinct text is stored once and never freed, so labels are cheap to copy and
// to hold.
class Label {
 public:
  Label() = default;
  Label(std::string_view text);
  Label(const char* text) : Label(std::string_view(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}

  bool empty() const { return text_ == nullptr; }
  std::string_view text() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  // Compares identity: equal texts are identical. The order is arbitrary.
  friend auto operator<=>(const Label& a, const Label& b) = default;

 private:
  const std::string* text_ = nullptr;  // null: says nothing
};

}  // namespace detail

// While alive, allocations of this thread belong to this phase and label. Scopes nest. A scope
// without a label (or phase) keeps the label (or phase) of the scope around it.
class MemoryScope {
 public:
  explicit MemoryScope(detail::Phase phase);
  explicit MemoryScope(detail::Label label);
  MemoryScope(detail::Phase phase, detail::Label label);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  // The phase and label of this thread's innermost scope; setup and empty outside of all scopes.
  static detail::Phase phase();
  static detail::Label label();

 private:
  detail::Phase phase_before_;
  detail::Label label_before_;
};

}  // namespace accrue
