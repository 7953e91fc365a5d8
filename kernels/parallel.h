#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace accrue {

// Runs every loop of the CPU kernels that is worth more than one thread. Only the amount of work
// decides how a loop is cut into chunks, never the number of threads, so results have the same bits
// with any number of threads. The calling thread takes chunks until none is left. Then it waits
// only for chunks that another thread has begun: a thread that the machine does not run delays no
// one.

// parallel_grain is the number of elements that a chunk touches. It takes some microseconds, so
// threads end a loop nearly together. parallel_least is the smallest number of elements that makes
// a loop worth a second thread.
inline constexpr int64_t parallel_grain = 8192, parallel_least = 32768;

inline constexpr int most_threads = 1024;

// The number of threads that share the work, including the calling one. It is less than the number
// that was set if the system has refused to start a thread.
int thread_count();
// Sets the number of threads; 0 means one for each CPU that the process may use (core/cpus.h). Do
// not call this while a loop runs. Throws Error if count is negative or above most_threads.
void set_thread_count(int count);

// Blocks signals in the calling thread. Worker threads call this, so that signals are delivered to
// threads that expect them.
void block_signals();

// Runs a chunk of a loop on one of its threads: call(context, chunk, slot), slot < slots.
using ChunkCall = void (*)(void* context, int64_t chunk, int slot);

// Makes the call for every chunk in [0, chunks), in any order and on at most `slots` threads, each
// with its own slot. Within a chunk, or beside another loop, it uses only the calling thread. After
// all calls have ended, it rethrows the exception of a call, if any.
void run_chunks(int64_t chunks, int slots, ChunkCall call, void* context);

// run_chunks() with body(chunk, slot), for loops whose chunks need scratch memory that has room for
// `slots` threads.
template <class Body>
void parallel_chunks(int64_t chunks, int slots, Body&& body) {
  const auto call = [](void* context, int64_t chunk, int slot) {
    (*static_cast<std::remove_reference_t<Body>*>(context))(chunk, slot);
  };
  run_chunks(chunks, slots, call, const_cast<void*>(static_cast<const void*>(&body)));
}

inline constexpr int any_slots = 1 << 16;

// The number of chunks for n items that each touch work_per_item elements.
inline int64_t chunks_of(int64_t n, int64_t work_per_item) {
  constexpr int64_t most = 4096;
  if (n * work_per_item < parallel_least) return 1;
  return std::clamp<int64_t>(n * work_per_item / parallel_grain, 1,
                             std::clamp<int64_t>(n, 1, most));
}

// Calls body(begin, end) on disjoint ranges that cover [0, n).
template <class Body>
void parallel_for(int64_t n, int64_t work_per_item, Body&& body) {
  const int64_t chunks = chunks_of(n, work_per_item);
  if (chunks == 1) {
    body(int64_t{0}, n);
    return;
  }
  parallel_chunks(chunks, any_slots,
                  [&](int64_t chunk, int) { body(n * chunk / chunks, n * (chunk + 1) / chunks); });
}

// Calls body(i) for each i in [0, n).
template <class Body>
void parallel_each(int64_t n, int64_t work_per_item, Body&& body) {
  parallel_for(n, work_per_item, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace accrue
