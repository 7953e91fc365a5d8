// The CPU's threads: loops run whole, whoever runs them.

#include "kernels/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cpus.h"
#include "core/error.h"
#include "tests/catch.h"
#include "tests/thread_scope.h"

namespace accrue::test {

TEST_CASE("every chunk of a loop runs once", "[threads]") {
  const int count = GENERATE(1, 2, 3, 8);
  const ThreadScope scope(count);
  REQUIRE(thread_count() == count);
  for (const int64_t chunks : {0, 1, 2, 7, 1000, 100'000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
    std::array<std::atomic<bool>, 2> taken{};
    std::atomic<bool> shared_a_slot = false;
    parallel_chunks(chunks, 2, [&](int64_t chunk, int slot) {
      auto& mine = taken[static_cast<size_t>(slot)];
      if (mine.exchange(true)) shared_a_slot = true;
      ++runs[static_cast<size_t>(chunk)];
      mine = false;
    });
    REQUIRE(std::ranges::all_of(runs, [](const auto& n) { return n == 1; }));
    REQUIRE_FALSE(shared_a_slot);
  }
}

TEST_CASE("a loop's ranges depend on the work alone", "[threads]") {
  std::array<std::vector<int64_t>, 2> begins;
  for (const int count : {1, 3}) {
    const ThreadScope scope(count);
    auto& all = begins[static_cast<size_t>(count / 2)];
    std::mutex mutex;
    parallel_for(1'000'003, 3, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      all.push_back(begin);
      all.push_back(end);
    });
    std::ranges::sort(all);
  }
  REQUIRE(begins[0].size() == 2 * 366);
  REQUIRE(begins[0] == begins[1]);
}

TEST_CASE("a loop within a chunk, and one beside another, run on their own thread", "[threads]") {
  const ThreadScope scope(3);
  std::atomic<int64_t> sum = 0;
  const auto nested = [&] {
    parallel_chunks(8, any_slots, [&](int64_t, int) {
      const auto outer = std::this_thread::get_id();
      parallel_chunks(8, any_slots, [&](int64_t, int) {
        if (std::this_thread::get_id() == outer) ++sum;
      });
    });
  };
  std::thread other(nested);
  nested();
  other.join();
  REQUIRE(sum == 2 * 64);
}

TEST_CASE("what a chunk throws reaches the caller", "[threads]") {
  const int count = GENERATE(1, 3);
  const ThreadScope scope(count);
  for (int i = 0; i < 50; ++i) {
    REQUIRE_THROWS_WITH(
        parallel_chunks(100, any_slots,
                        [&](int64_t chunk, int) { check(chunk != 97, "chunk {} is bad", chunk); }),
        "chunk 97 is bad");
    std::atomic<int> after = 0;
    parallel_chunks(100, any_slots, [&](int64_t, int) { ++after; });
    REQUIRE(after == 100);
  }
}

// A forked child has the calling thread alone.
TEST_CASE("a loop runs in a forked child", "[threads]") {
  const ThreadScope scope(4);
  std::atomic<int> runs = 0;
  const auto loop = [&] { parallel_chunks(1000, any_slots, [&](int64_t, int) { ++runs; }); };
  loop();
  const pid_t child = fork();
  if (child == 0) {
    loop();
    _exit(runs == 2000 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

TEST_CASE("the number of threads is checked", "[threads]") {
  const ThreadScope scope(0);
  REQUIRE(thread_count() == available_cpus());
  REQUIRE_THROWS_WITH(set_thread_count(-1), "-1 threads: expected 0 to 256");
  REQUIRE_THROWS_WITH(set_thread_count(257), "257 threads: expected 0 to 256");
}

}  // namespace accrue::test
