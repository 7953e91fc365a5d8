#pragma once

namespace accrue::app {

// While alive, Ctrl-C (SIGINT) and SIGTERM only ask. The first: the running window is to be
// finished first; the second: it is to be rolled back. A third ends the program at once.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

// Whether a signal has asked to stop, and whether a second one has.
bool interrupted();
bool interrupted_twice();

}  // namespace accrue::app
