#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "core/ledger.h"

namespace accrue::cpu {

// Hands out parts of a workspace. If base is null, it only counts their bytes.
class BumpAllocator {
 public:
  explicit BumpAllocator(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    const size_t at = std::exchange(
        used_, used_ + round_up(static_cast<size_t>(count) * sizeof(T), Ledger::alignment));
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace accrue::cpu
