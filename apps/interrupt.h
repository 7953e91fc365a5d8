#pragma once

namespace accrue::app {

// While alive, Ctrl-C (SIGINT) and SIGTERM only ask: the running window is finished first. A second
// signal ends the program at once.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

// Whether a signal has asked to stop.
bool interrupted();

}  // namespace accrue::app
