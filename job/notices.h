#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace accrue {

// Tells somebody what happens on the way: facts, and warnings of what may not be meant. A library
// prints nothing itself, so whoever opens a job says where its words go; by itself nowhere.
class Notices {
 public:
  // A remnant is what an error, which is thrown, has left of the work.
  enum class Kind { fact, warning, remnant };
  // Takes a line, or several, without the last line's end. It must not throw.
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
