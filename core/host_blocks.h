#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "core/inside.h"
#include "core/usage.h"

namespace accrue {

// Keeps freed host blocks by size class: training asks for the same sizes in every micro-batch, and
// fresh pages from the system cost more than the arithmetic on them. Before it takes a block from
// the system, it gives idle blocks back, so that it holds at most idle_allowance more than was ever
// in use at once. Thread-safe.
class HostBlocks {
 public:
  static constexpr size_t idle_allowance = size_t{16} << 20;

  HostBlocks() = default;
  ~HostBlocks() { release_cached(); }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  // Returns a block of at least `bytes`, aligned to Ledger::alignment, or null if the system has
  // none.
  void* take(size_t bytes);
  void give(void* block, size_t bytes);

  // Gives the free blocks back to the system. Returns their bytes.
  size_t release_cached();
  // The statistics, which count each block as a segment.
  Reserve statistics() const;

 private:
  // Gives idle blocks back, the largest first, until at most `bytes` are held or none is idle.
  size_t shrink_to(size_t bytes);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>, std::greater<>> free_;  // by size, the largest first
  Reserve held_;                                               // without largest_free
  size_t most_in_use_ = 0;
};

// The blocks of this process.
HostBlocks& host_blocks();

}  // namespace accrue
