#pragma once

#include <functional>

#include "core/error.h"

namespace accrue {

// Whether a run should stop.
enum class Stop {
  no,
  after_window,  // after the current window has stepped
  now            // before the next micro-batch: the current window is rolled back
};
// Runs call this before every micro-batch and after every window; loops over data call it before
// each batch. It may read a flag that a signal handler sets.
using StopRequest = std::function<Stop()>;
namespace detail {
inline Stop never_stop() { return Stop::no; }
}  // namespace detail

// Thrown when Stop::now stops a run within a window, or a loop over data.
struct Stopped : Error {
  using Error::Error;
};

namespace detail {

inline void throw_if_stopped(const StopRequest& stop) {
  if (stop() == Stop::now) throw Stopped("stopped before all samples had their turn");
}

}  // namespace detail

// Thrown when a run has stopped making progress, because losses, gradients or weights are not
// finite.
struct Divergence : Error {
  using Error::Error;
};

}  // namespace accrue
