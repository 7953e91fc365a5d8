// The device's block cache, on host memory: it reuses and splits blocks, and no two blocks overlap.

#include "core/block_cache.h"

#include <cstdlib>
#include <map>
#include <vector>

#include "core/inside.h"
#include "core/random.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

// The cache gets its segments here: a device of `capacity` bytes.
struct Memory {
  size_t capacity = 1024 * MiB, used = 0;
  std::map<void*, size_t> segments;
  BlockCache cache{{[this](size_t bytes) { return allocate(bytes); },
                    [this](void* segment) { release(segment); }}};

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (const auto& [segment, bytes] : segments) std::free(segment);
  }

  void* allocate(size_t bytes) {
    if (used + bytes > capacity) return nullptr;
    used += bytes;
    void* segment = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    segments[segment] = bytes;
    return segment;
  }
  void release(void* segment) {
    used -= segments.at(segment);
    segments.erase(segment);
    std::free(segment);
  }
};

ptrdiff_t distance(const void* from, const void* to) {
  return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
}

}  // namespace

TEST_CASE("a block that was given is taken again", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  void* a = cache.take(5 * MiB);
  cache.give(a);
  REQUIRE(cache.take(5 * MiB) == a);
  REQUIRE(memory.segments.size() == 1);
  // A block of no bytes has an address, too.
  void* none = cache.take(0);
  REQUIRE(none != nullptr);
  REQUIRE(cache.take(0) != none);
}

TEST_CASE("small blocks share a segment, and grow together again", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cache.take(100));  // rounded up to 512
  for (int i = 0; i < 4; ++i) REQUIRE(distance(blocks[0], blocks[size_t(i)]) == 512 * i);
  REQUIRE(memory.used == 2 * MiB);
  // The cache takes the smallest free block that fits: the hole, and not the rest of the segment.
  cache.give(blocks[1]);
  REQUIRE(cache.take(512) == blocks[1]);
  // Neighbours on both sides merge, whichever comes first.
  for (const int i : {1, 3, 2, 0}) cache.give(blocks[size_t(i)]);
  REQUIRE(cache.statistics().largest_free == 2 * MiB);
  REQUIRE(cache.take(1 * MiB) == blocks[0]);
}

TEST_CASE("a large block keeps a remainder that no large request could use", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  cache.take(9 * MiB);
  void* rest = cache.take(10 * MiB);  // the segment has 20 MiB, and 11 MiB of it are free
  REQUIRE(memory.used == 20 * MiB);
  REQUIRE(cache.statistics().allocated == 20 * MiB);
  cache.give(rest);
  cache.take(9 * MiB);  // leaves 2
  REQUIRE(cache.statistics().allocated == 18 * MiB);
  REQUIRE(cache.statistics().largest_free == 2 * MiB);
}

TEST_CASE("small requests leave large blocks whole", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  cache.give(cache.take(5 * MiB));
  cache.take(512);
  REQUIRE(memory.segments.size() == 2);
  REQUIRE(cache.statistics().largest_free == 20 * MiB);
}

TEST_CASE("statistics say what is reserved, allocated and free", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  void* large = cache.take(31 * MiB + 1);  // the rest is too small to be split off
  cache.take(3 * KiB);
  const auto in_use = cache.statistics();
  REQUIRE(in_use.reserved == 34 * MiB);
  REQUIRE(in_use.allocated == 32 * MiB + 3 * KiB);
  REQUIRE(in_use.largest_free == 2 * MiB - 3 * KiB);
  REQUIRE(in_use.segments == 2);
  cache.give(large);
  REQUIRE(cache.statistics().allocated == 3 * KiB);
  REQUIRE(to_string(cache.statistics()) ==
          "reserved 34.0 MiB in 2 segments, 3.0 KiB of it allocated, largest free block 32.0 MiB, "
          "fragmentation 6 %");
}

TEST_CASE("release_cached returns the segments that nobody uses", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  void* large = cache.take(64 * MiB);
  void* small = cache.take(512);
  cache.give(large);
  REQUIRE(cache.release_cached() == 64 * MiB);
  REQUIRE(memory.used == 2 * MiB);
  REQUIRE(cache.release_cached() == 0);
  cache.give(small);
  REQUIRE(cache.release_cached() == 2 * MiB);
  REQUIRE(memory.segments.empty());
  REQUIRE(cache.statistics().reserved == 0);
}

TEST_CASE("an exhausted source is asked again after cached memory went back", "[engine]") {
  Memory memory;
  memory.capacity = 64 * MiB;
  BlockCache& cache = memory.cache;
  void* a = cache.take(40 * MiB);
  REQUIRE(cache.take(40 * MiB) == nullptr);
  REQUIRE(cache.statistics().allocated == 40 * MiB);
  cache.give(a);
  void* b = cache.take(60 * MiB);
  REQUIRE(b != nullptr);
  REQUIRE(memory.used == 60 * MiB);
}

TEST_CASE("nothing goes back to the source while work is recorded", "[engine]") {
  Memory memory;
  memory.capacity = 64 * MiB;
  BlockCache& cache = memory.cache;
  cache.give(cache.take(40 * MiB));
  {
    const BlockCache::Recording recording(cache);
    REQUIRE(cache.take(60 * MiB) == nullptr);
    REQUIRE(cache.release_cached() == 0);
    REQUIRE(memory.used == 40 * MiB);
  }
  REQUIRE(cache.release_cached() == 40 * MiB);
  cache.set_mode(BlockCache::Mode::direct);
  {
    const BlockCache::Recording recording(cache);
    cache.give(cache.take(100));
    REQUIRE(memory.used == 100);
    REQUIRE(cache.statistics().reserved == 0);
  }
  REQUIRE(memory.used == 0);
}

TEST_CASE("pools share no block, and keep theirs while they are held", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  cache.give(cache.take(5 * MiB));
  const BlockCache::Pool pool = cache.new_pool();
  REQUIRE(cache.use_pool(pool) == BlockCache::common_pool);
  void* own = cache.take(5 * MiB);
  REQUIRE(memory.segments.size() == 2);
  REQUIRE(cache.use_pool(BlockCache::common_pool) == pool);
  cache.give(own);  // goes back to its own pool, whichever pool is in use
  REQUIRE(cache.take(5 * MiB) != own);
  cache.use_pool(pool);
  REQUIRE(cache.take(5 * MiB) == own);
  cache.give(own);
  cache.use_pool(BlockCache::common_pool);
  REQUIRE(cache.release_cached() == 0);
  cache.drop_pool(pool);
  REQUIRE(cache.release_cached() == 20 * MiB);
}

TEST_CASE("in direct mode each block is an allocation of its size", "[engine]") {
  Memory memory;
  BlockCache& cache = memory.cache;
  cache.give(cache.take(512));
  cache.set_mode(BlockCache::Mode::direct);
  REQUIRE(memory.segments.empty());
  void* a = cache.take(100);
  REQUIRE(memory.segments.at(a) == 100);
  REQUIRE_ERROR(cache.set_mode(BlockCache::Mode::caching), "while 100 B are in use");
  cache.give(a);
  REQUIRE(memory.segments.empty());
  REQUIRE(cache.statistics().reserved == 0);
}

TEST_CASE("blocks never overlap, and all memory comes back", "[engine]") {
  Memory memory;
  memory.capacity = 256 * MiB;
  BlockCache& cache = memory.cache;
  RandomStream random(1);
  std::map<std::byte*, std::byte*> in_use;  // begin, end
  const auto give_one = [&] {
    const auto block =
        std::next(in_use.begin(), random.below(static_cast<uint32_t>(in_use.size())));
    cache.give(block->first);
    in_use.erase(block);
  };
  const std::vector<BlockCache::Pool> pools{BlockCache::common_pool, cache.new_pool()};
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    if (!in_use.empty() && random.below(100) < 45) {
      give_one();
      continue;
    }
    cache.use_pool(pools[static_cast<size_t>(random.below(2))]);
    // Sizes of all magnitudes up to 16 MiB.
    const auto bytes = static_cast<size_t>(1 + random.below(16u << random.below(21)));
    auto* begin = static_cast<std::byte*>(cache.take(bytes));
    if (!begin) {
      ++refused;
      continue;
    }
    REQUIRE(reinterpret_cast<uintptr_t>(begin) % 512 == 0);
    const auto after = in_use.lower_bound(begin);
    REQUIRE((after == in_use.end() || begin + bytes <= after->first));
    REQUIRE((after == in_use.begin() || std::prev(after)->second <= begin));
    auto segment = std::prev(memory.segments.upper_bound(begin));
    REQUIRE(begin + bytes <= static_cast<std::byte*>(segment->first) + segment->second);
    in_use[begin] = begin + bytes;
    if (i % 500 == 0) cache.release_cached();
    REQUIRE(cache.statistics().reserved == memory.used);
  }
  REQUIRE(refused > 0);
  while (!in_use.empty()) give_one();
  REQUIRE(cache.statistics().allocated == 0);
  for (const BlockCache::Pool pool : pools) cache.drop_pool(pool);
  cache.release_cached();
  REQUIRE(memory.segments.empty());
}

}  // namespace accrue::test
