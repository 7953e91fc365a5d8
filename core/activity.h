#pragma once

#include <exception>
#include <functional>
#include <semaphore>
#include <thread>

#include "core/inside.h"
#include "core/memory_scope.h"

namespace accrue {

// A function that can be suspended at any depth of its calls. It runs on its own thread, with its
// own stack and modes (NoGrad, recompute), but only while resume() waits for it. So the data that
// it shares with its owner need no lock.
class Activity {
 public:
  // It inherits the memory scope of the calling thread.
  explicit Activity(std::function<void()> body) : body_(std::move(body)) {}
  // Ends a suspended function by making its suspend() throw.
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Runs the function until it suspends itself or returns. An exception from the function ends it
  // and is rethrown here.
  void resume();
  bool is_done() const { return is_done_; }
  // The function calls this to suspend itself. It returns at the next resume().
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
