#pragma once

#include <cstddef>
#include <vector>

#include "core/cuda.h"
#include "core/tensor.h"

namespace accrue::detail {

// Copies small values from a device to the host, in order, while both continue: push() enqueues a
// copy, and pop() returns the oldest value.
class Readback {
 public:
  // Reads back values of `bytes` each, with at most `slots` copies under way at a time.
  Readback(Device device, size_t bytes, int slots);
  ~Readback();
  Readback(const Readback&) = delete;
  Readback& operator=(const Readback&) = delete;

  // `from` is on the device; work that is enqueued later may overwrite it. Throws Error if full().
  void push(const void* from);
  int under_way() const { return pushed_ - popped_; }
  bool full() const { return under_way() == slots_; }
  // True if pop() would return at once.
  bool ready() const;
  // Waits for the oldest value and copies it to `to`.
  void pop(void* to);

 private:
  std::byte* slot(int number) const {
    return memory_ + static_cast<size_t>(number % slots_) * bytes_;
  }

  const Device device_;
  const size_t bytes_;
  const int slots_;
  int pushed_ = 0, popped_ = 0;
  std::vector<std::byte> on_host_;
  std::unique_ptr<cuda::PinnedBlock> pinned_;
  std::byte* memory_ = nullptr;
  std::vector<std::unique_ptr<cuda::Event>> arrived_;
};

}  // namespace accrue::detail
