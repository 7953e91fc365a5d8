#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "core/inside.h"
#include "core/usage.h"

namespace accrue {

// Freed host blocks, kept by size class: training asks for the same sizes again in every
// micro-batch, and fresh pages from the system cost more than the arithmetic on them. Before a
// block is taken from the system, idle ones go back to it, so that at most idle_allowance more is
// held than was ever in use at once. Thread-safe.
class HostBlocks {
 public:
  static constexpr size_t idle_allowance = size_t{16} << 20;

  HostBlocks() = default;
  ~HostBlocks() { release_cached(); }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  // A block of at least `bytes`, aligned to Ledger::alignment; null if the system has none.
  void* take(size_t bytes);
  void give(void* block, size_t bytes);

  // Gives the free blocks back to the system. Returns their bytes.
  size_t release_cached();
  // The statistics, in which each block is a segment of its own.
  Reserve statistics() const;

 private:
  // Returns idle blocks, the largest first, until no more than `bytes` are held or none is left.
  size_t shrink_to(size_t bytes);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>, std::greater<>> free_;  // by size, the largest first
  Reserve held_;                                               // but for largest_free
  size_t most_in_use_ = 0;
};

// The blocks of this process.
HostBlocks& host_blocks();

}  // namespace accrue
