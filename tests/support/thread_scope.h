#pragma once

#include "kernels/parallel.h"

namespace accrue::test {

// Sets the number of threads, and sets it back.
class ThreadScope {
 public:
  explicit ThreadScope(int count) { set_thread_count(count); }
  ~ThreadScope() { set_thread_count(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_ = thread_count();
};

}  // namespace accrue::test
