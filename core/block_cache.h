#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "core/usage.h"

namespace accrue::detail {

// Hands out blocks of a few large segments of device memory and takes them back, because a request
// to the driver costs more than a small kernel and waits for the device. Blocks are split to fit
// and merged with free neighbours. A remainder smaller than min_remainder() stays with its block.
// Thread-safe.
class BlockCache {
 public:
  // The source of segments; allocate returns null if there is no more memory.
  struct Source {
    std::function<void*(size_t bytes)> allocate;
    std::function<void(void* segment)> free;
  };
  // direct: the source allocates each block separately, at exactly its size. Memory checkers then
  // see every access beyond it.
  enum class Mode { caching, direct };
  // Free blocks of one pool serve no other pool, so that no one else gets the memory that a
  // recorded graph writes to.
  using Pool = int64_t;
  static constexpr Pool common_pool = 0;

  explicit BlockCache(Source source) : source_(std::move(source)) {}
  // The destructor frees nothing: at the end of the program the driver may be gone already.
  ~BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // A block of at least `bytes`, aligned to 512; null if neither the cache nor the source has one.
  void* take(size_t bytes);
  void give(void* block);

  // Gives segments without a block in use back to the source, except segments of held pools.
  // Returns the number of bytes that it gave back.
  size_t release_cached();
  Reserve statistics() const;

  // While one exists, no segment is returned to the source: that would wait for the device, which
  // CUDA does not allow while work is being recorded. The cache returns these segments after the
  // recording.
  class Recording {
   public:
    explicit Recording(BlockCache& cache) : cache_(cache) { cache_.begin_recording(); }
    ~Recording() { cache_.end_recording(); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    BlockCache& cache_;
  };

  // Throws Error while blocks are in use.
  void set_mode(Mode mode);
  // Makes a pool and holds it until drop_pool(): its segments are not returned to the source.
  Pool new_pool();
  void drop_pool(Pool pool);
  // Takes blocks from `pool` from now on. Returns the pool used until now.
  Pool use_pool(Pool pool);

 private:
  struct Block {
    std::byte* data;
    size_t size;
    Pool pool;
    bool used;
    Block *before, *after;  // neighbours in the same segment
  };
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : std::less<>()(a->data, b->data);
    }
  };
  using FreeBlocks = std::set<Block*, Smaller>;

  FreeBlocks& free_blocks(Pool pool, size_t size);
  Block* find_free(size_t size);
  Block* new_segment(size_t size);
  void split(Block* block, size_t size);
  void merge(Block* block, Block* next);
  size_t release_segments();
  void return_segment(Block* block);
  void begin_recording();
  void end_recording();

  Source source_;
  mutable std::mutex mutex_;
  Mode mode_ = Mode::caching;
  Pool pool_ = common_pool, last_pool_ = common_pool;
  size_t allocated_ = 0;
  bool recording_ = false;
  std::vector<void*> to_return_;  // after the recording
  std::set<Pool> held_;
  std::map<std::byte*, std::unique_ptr<Block>> blocks_;
  std::map<std::pair<Pool, bool>, FreeBlocks> free_;  // by pool, small or large
};

}  // namespace accrue::detail
