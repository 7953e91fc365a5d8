#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace accrue {

// Passes messages about the progress of a job, facts and warnings, to a sink. The library prints
// nothing itself: whoever creates a job decides where its messages go. Without a sink they are
// dropped.
class Notices {
 public:
  // A remnant tells which results an error has left. The error itself is thrown.
  enum class Kind { fact, warning, remnant };
  // Takes one or more lines, without the newline of the last. It must not throw.
  using Sink = std::function<void(Kind kind, std::string_view text)>;

  Notices() = default;
  explicit Notices(Sink sink) : sink_(std::move(sink)) {}

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (sink_) sink_(Kind::fact, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (sink_) sink_(Kind::warning, fmt::format(format, std::forward<Args>(args)...));
  }

  template <class... Args>
  void say_at_error(fmt::format_string<Args...> format, Args&&... args) const {
    if (sink_) sink_(Kind::remnant, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Sink sink_;
};

}  // namespace accrue
