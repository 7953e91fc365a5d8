#include "core/block_cache.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

// As in PyTorch's allocator, requests up to small_limit share segments of small_segment, and larger
// requests up to large_limit share segments of large_segment. Each request above that gets its own
// segment.
constexpr size_t alignment = 512;
constexpr size_t small_limit = size_t{1} << 20, small_segment = size_t{2} << 20;
constexpr size_t large_limit = size_t{10} << 20, large_segment = size_t{20} << 20;

constexpr bool is_small(size_t size) { return size <= small_limit; }

size_t segment_size(size_t size) {
  if (is_small(size)) return small_segment;
  return size <= large_limit ? large_segment : round_up(size, small_segment);
}

// Splitting is limited: a large block keeps a remainder that no large request could use.
size_t min_remainder(size_t size) { return is_small(size) ? alignment : small_limit + alignment; }

}  // namespace

void* BlockCache::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  const bool direct = mode_ == Mode::direct;
  const size_t size = direct ? bytes : round_up(std::max<size_t>(bytes, 1), alignment);
  Block* block = direct ? nullptr : find_free(size);
  if (!block) block = new_segment(size);
  if (!block && release_segments() > 0) block = new_segment(size);
  if (!block) return nullptr;
  block->used = true;
  if (!direct) split(block, size);
  allocated_ += block->size;
  return block->data;
}

void BlockCache::give(void* data) {
  std::lock_guard lock(mutex_);
  Block* block = blocks_.at(static_cast<std::byte*>(data)).get();
  block->used = false;
  allocated_ -= block->size;
  if (mode_ == Mode::direct) return return_segment(block);
  const auto take_free = [&](Block* neighbour) {
    if (!neighbour || neighbour->used) return false;
    free_blocks(neighbour->pool, neighbour->size).erase(neighbour);
    return true;
  };
  if (take_free(block->after)) merge(block, block->after);
  if (take_free(block->before)) {
    block = block->before;
    merge(block, block->after);
  }
  free_blocks(block->pool, block->size).insert(block);
}

BlockCache::FreeBlocks& BlockCache::free_blocks(Pool pool, size_t size) {
  return free_[{pool, is_small(size)}];
}

// Finds the smallest free block that is large enough. Small requests never take from large
// segments: these would become useless for the large requests that they are kept for.
BlockCache::Block* BlockCache::find_free(size_t size) {
  for (const bool small : {true, false}) {
    if (small && !is_small(size)) continue;
    FreeBlocks& candidates = free_[{pool_, small}];
    Block wanted{nullptr, size, pool_, false, nullptr, nullptr};
    for (auto found = candidates.lower_bound(&wanted); found != candidates.end(); ++found) {
      Block* block = *found;
      const bool whole_small_segment = block->size <= small_segment;
      if (is_small(size) && !small && !whole_small_segment) break;
      candidates.erase(found);
      return block;
    }
  }
  return nullptr;
}

BlockCache::Block* BlockCache::new_segment(size_t size) {
  const size_t bytes = mode_ == Mode::direct ? std::max<size_t>(size, 1) : segment_size(size);
  auto* data = static_cast<std::byte*>(source_.allocate(bytes));
  if (!data) return nullptr;
  auto block = std::make_unique<Block>(Block{data, bytes, pool_, false, nullptr, nullptr});
  return (blocks_[data] = std::move(block)).get();
}

void BlockCache::split(Block* block, size_t size) {
  if (block->size - size < min_remainder(size)) return;
  auto rest = std::make_unique<Block>(
      Block{block->data + size, block->size - size, block->pool, false, block, block->after});
  if (block->after) block->after->before = rest.get();
  block->after = rest.get();
  block->size = size;
  free_blocks(rest->pool, rest->size).insert(rest.get());
  blocks_[rest->data] = std::move(rest);
}

void BlockCache::merge(Block* block, Block* next) {
  block->size += next->size;
  block->after = next->after;
  if (next->after) next->after->before = block;
  blocks_.erase(next->data);
}

size_t BlockCache::release_cached() {
  std::lock_guard lock(mutex_);
  return release_segments();
}

size_t BlockCache::release_segments() {
  if (recording_) return 0;
  size_t released = 0;
  for (auto& [key, candidates] : free_)
    std::erase_if(candidates, [&](Block* block) {
      if (block->before || block->after || held_.contains(block->pool)) return false;
      released += block->size;
      return_segment(block);
      return true;
    });
  return released;
}

void BlockCache::return_segment(Block* block) {
  std::byte* data = block->data;
  blocks_.erase(data);
  if (recording_) to_return_.push_back(data);
  else source_.free(data);
}

void BlockCache::begin_recording() {
  std::lock_guard lock(mutex_);
  recording_ = true;
}

void BlockCache::end_recording() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  for (void* segment : std::exchange(to_return_, {})) source_.free(segment);
}

Reserve BlockCache::statistics() const {
  std::lock_guard lock(mutex_);
  Reserve result{.allocated = allocated_};
  for (const auto& [data, block] : blocks_) {
    result.reserved += block->size;
    result.segments += block->before == nullptr;
    if (!block->used) result.largest_free = std::max(result.largest_free, block->size);
  }
  return result;
}

void BlockCache::set_mode(Mode mode) {
  std::lock_guard lock(mutex_);
  check(allocated_ == 0, "the allocator's mode cannot change while {} are in use",
        format_bytes(allocated_));
  release_segments();
  mode_ = mode;
}

BlockCache::Pool BlockCache::new_pool() {
  std::lock_guard lock(mutex_);
  held_.insert(++last_pool_);
  return last_pool_;
}

void BlockCache::drop_pool(Pool pool) {
  std::lock_guard lock(mutex_);
  held_.erase(pool);
}

BlockCache::Pool BlockCache::use_pool(Pool pool) {
  std::lock_guard lock(mutex_);
  return std::exchange(pool_, pool);
}

}  // namespace accrue
