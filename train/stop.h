#pragma once

#include <functional>

#include "core/error.h"

namespace accrue {

enum class Stop {
  no,
  after_window,  // once the window under way has stepped
  now            // before the next micro-batch: the window under way is rolled back
};
// Asked before every micro-batch and after every window; it may be answered by a flag that a signal
// handler sets.
using StopRequest = std::function<Stop()>;
inline Stop never_stop() { return Stop::no; }

// A run was stopped within a window, by Stop::now.
struct Stopped : Error {
  using Error::Error;
};

// A run has stopped making progress: losses, gradients or weights are not finite.
struct Divergence : Error {
  using Error::Error;
};

}  // namespace accrue
