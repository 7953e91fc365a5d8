#include "core/host_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/address_sanitizer.h"
#include "core/ceil_div.h"
#include "core/ledger.h"

namespace accrue {
namespace {

// Eight classes per power of two: at most 1/8 of a block is unused.
size_t size_class(size_t bytes) {
  const size_t step = std::max(Ledger::alignment, std::bit_floor(bytes) / 8);
  return round_up(bytes, step);
}

}  // namespace

void* HostBlocks::take(size_t bytes) {
  const size_t size = size_class(bytes);
  std::lock_guard lock(mutex_);
  const size_t in_use = held_.allocated + size;
  void* block = nullptr;
  if (auto& blocks = free_[size]; !blocks.empty()) {
    block = blocks.back();
    blocks.pop_back();
  } else {
    shrink_to(std::max(most_in_use_, in_use) + idle_allowance - size);
    block = std::aligned_alloc(Ledger::alignment, size);
    if (!block && shrink_to(0) > 0) block = std::aligned_alloc(Ledger::alignment, size);
    if (!block) return nullptr;
    held_.reserved += size;
    ++held_.segments;
  }
  held_.allocated = in_use;
  most_in_use_ = std::max(most_in_use_, in_use);
  allow_access(block, bytes);
  forbid_access(static_cast<std::byte*>(block) + bytes, size - bytes);
  return block;
}

void HostBlocks::give(void* block, size_t bytes) {
  std::lock_guard lock(mutex_);
  const size_t size = size_class(bytes);
  forbid_access(block, size);
  free_[size].push_back(block);
  held_.allocated -= size;
}

size_t HostBlocks::release_cached() {
  std::lock_guard lock(mutex_);
  return shrink_to(0);
}

size_t HostBlocks::shrink_to(size_t bytes) {
  const size_t before = held_.reserved;
  for (auto& [size, blocks] : free_)
    while (!blocks.empty() && held_.reserved > bytes) {
      allow_access(blocks.back(), size);
      std::free(blocks.back());
      blocks.pop_back();
      held_.reserved -= size;
      --held_.segments;
    }
  return before - held_.reserved;
}

Reserve HostBlocks::statistics() const {
  std::lock_guard lock(mutex_);
  Reserve result = held_;
  for (const auto& [size, blocks] : free_)
    if (!blocks.empty()) result.largest_free = std::max(result.largest_free, size);
  return result;
}

HostBlocks& host_blocks() {
  static HostBlocks blocks;
  return blocks;
}

}  // namespace accrue
