#pragma once

#include <exception>
#include <functional>
#include <semaphore>
#include <thread>

#include "core/inside.h"
#include "core/memory_scope.h"

namespace accrue {

// A function that can be suspended in the middle, wherever its calls have come to. It has a thread,
// and so a stack and modes of its own (NoGrad, recompute), but runs only while resume() waits for
// it: whatever its owner and it share needs no lock.
class Activity {
 public:
  // Its memory scope is the one in force here.
  explicit Activity(std::function<void()> body) : body_(std::move(body)) {}
  // If it is suspended, suspend() throws there, so that it ends.
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Runs it until it is suspended or done. Throws what it throws, which ends it.
  void resume();
  bool is_done() const { return is_done_; }
  // Call this in the function. Returns at the next resume().
  void suspend();

 private:
  struct Ended {};
  void run();

  std::function<void()> body_;
  const Phase phase_ = MemoryScope::phase();
  const Label label_ = MemoryScope::label();
  std::binary_semaphore may_run_{0}, has_paused_{0};
  bool is_done_ = false, is_to_end_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace accrue
