#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace accrue::app {

// Whether a signal is answered by a line on standard error, which says what it does.
enum class Answers { no, yes };

// While alive, Ctrl-C (SIGINT), SIGTERM and SIGHUP only ask. The
// first: the running window is to be finished first; the second: it is to be rolled back. A third
// ends the program at once. A SIGTERM or SIGHUP within a second of the first signal counts for
// nothing, here and after: they come twice from Slurm when a job's time is over, and from a
// terminal that is closed. To be made by the thread that computes; the other threads leave signals
// to it.
//
// The handler has a stack of its own. On the thread's, while oneDNN 2.6.3 was in dnnl_sgemm, it
// left a corrupted heap in 11 of 450 runs; so in none of 270.
class InterruptScope {
 public:
  explicit InterruptScope(Answers answers = Answers::yes);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::vector<std::byte> stack_;
  stack_t stack_before_;
};

// True once a signal has asked to stop; once a second one has.
bool interrupted();
bool interrupted_twice();

}  // namespace accrue::app
