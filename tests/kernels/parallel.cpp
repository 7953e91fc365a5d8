// The CPU's threads: every loop runs completely, whichever threads run it.

#include "kernels/parallel.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cpus.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/sanitizers.h"
#include "tests/support/thread_scope.h"

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

TEST_CASE("an exception in a chunk reaches the caller", "[threads]") {
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

// Runs body in a forked child, which has only the calling thread. Returns true if body returned
// true there and the child then exited normally.
template <class Body>
bool true_in_child(Body body) {
  std::fflush(nullptr);  // otherwise the child would print it again
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // rather than hang
    if (!body()) _exit(1);
    std::exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

TEST_CASE("a loop runs in a forked child", "[threads]") {
  const ThreadScope scope(2);
  std::atomic<int> runs = 0;
  std::atomic<bool> shared = false;
  const auto loop = [&] {
    parallel_chunks(1000, any_slots, [&](int64_t, int slot) {
      ++runs;
      if (slot > 0) shared = true;
    });
  };
  // Repeats the loop until another thread helps: on a busy machine the calling thread may do all
  // the work.
  for (int i = 0; i < 1000 && !shared; ++i) loop();
  REQUIRE(true_in_child([&] {
    runs = 0;
    loop();
    // More threads than before. ThreadSanitizer ends a forked process that starts a thread.
    set_thread_count(__tsan_init ? 2 : 8);
    loop();
    return runs == 2000;
  }));
}

TEST_CASE("a loop runs on the threads that the system gives", "[threads]") {
  if (sanitized() || __tsan_init) {
    WARN("left out: the sanitizers need address space of their own");
    return;
  }
  REQUIRE(true_in_child([] {
    set_thread_count(1000);
    // Leaves address space for the stacks of some of the threads only.
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const size_t size = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + (size_t{1} << 28);
    const rlimit some{size, size};
    if (setrlimit(RLIMIT_AS, &some) != 0) return false;
    // The pause gives other threads time to start: on a busy machine the calling thread could do
    // all the work.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    int loops = 0;
    std::atomic<int> runs = 0;
    for (; thread_count() == 1000; ++loops)
      parallel_chunks(1000, any_slots, [&](int64_t, int) { ++runs; });
    return runs == 1000 * loops && thread_count() > 1;
  }));
}

TEST_CASE("the CPUs follow the process's affinity", "[threads]") {
  REQUIRE(true_in_child([] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return false;
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 && available_cpus() == 1;
  }));
}

TEST_CASE("the number of threads is checked", "[threads]") {
  const ThreadScope scope(0);
  REQUIRE(thread_count() == std::min(available_cpus(), most_threads));
  REQUIRE_THROWS_WITH(set_thread_count(-1), "-1 threads: expected 0 to 1024");
  REQUIRE_THROWS_WITH(set_thread_count(1025), "1025 threads: expected 0 to 1024");
}

}  // namespace accrue::test
