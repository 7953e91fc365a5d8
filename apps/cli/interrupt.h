#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace accrue::app {

// Whether a signal prints a line on standard error that says what the signal does.
enum class Answers { no, yes };

// While this object lives, Ctrl-C (SIGINT), SIGTERM and SIGHUP are requests. The first asks to
// finish the running window and stop; the second asks to roll that window back; a third ends the
// program at once. A SIGTERM or SIGHUP within a second of the first signal is ignored, even after
// this object is gone: Slurm sends SIGTERM twice when a job's time is over, and a closed terminal
// sends SIGHUP twice. The thread that computes must make this object; the other threads leave
// signals to it.
//
// The handler has its own stack. When it ran on the thread's stack while oneDNN 2.6.3 was in
// dnnl_sgemm, it corrupted the heap in 11 of 450 runs; with its own stack, in none of 270.
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

// True after the first signal has asked to stop; true after a second one.
bool interrupted();
bool interrupted_twice();

}  // namespace accrue::app
