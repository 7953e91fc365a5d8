#include "kernels/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/cpus.h"
#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

// How long threads spin before they sleep: workers for the next loop, the calling thread for the
// last chunks.
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
constexpr auto spin_for_loop = 100us, spin_for_chunks = 50us;

// If other programs take the processors, more threads do not get more processor time, and any
// thread may stop in the middle of a chunk that the others wait for. So if the calling thread has
// run for less than three quarters of the time, it works alone for a while, and longer if that
// happens again soon.
class Solitude {
 public:
  // Returns whether the calling thread works alone now. Call this before every loop.
  bool lasts() {
    const auto now = Clock::now();
    if (now - sampled_ > sample) observe(now);
    return now < end_;
  }

 private:
  static constexpr Clock::duration sample = 5ms, shortest = 10ms, longest = 1s;

  void observe(Clock::time_point now) {
    timespec cpu{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    const auto ran = std::chrono::seconds(cpu.tv_sec) + std::chrono::nanoseconds(cpu.tv_nsec);
    // The times are not comparable if another thread called last, or the process has forked.
    const bool comparable = ran >= ran_ && now - sampled_ < 1s;
    if (comparable && 4 * (ran - ran_) < 3 * (now - sampled_)) {
      while_ = now < end_ + 4 * while_ ? std::min<Clock::duration>(2 * while_, longest) : shortest;
      end_ = now + while_;
    }
    sampled_ = now;
    ran_ = ran;
  }

  Clock::time_point sampled_{}, end_{};
  Clock::duration ran_{}, while_ = shortest;
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `at` is no longer `value`.
void await_change(const std::atomic<int>& at, int value, Clock::duration spin) {
  const auto end = Clock::now() + spin;
  do {
    for (int i = 0; i < 16; ++i, relax())
      if (at.load(std::memory_order_acquire) != value) return;
  } while (Clock::now() < end);
  at.wait(value, std::memory_order_acquire);
}

// A thread's share of a loop's chunks, [begin, end). The thread takes chunks from the front, so
// that it has the same data in its caches from loop to loop. Threads that have finished their own
// share take chunks from the back. The loop's number is part of the word, so that a late thread
// takes nothing from a newer loop.
class alignas(64) Share {
 public:
  static constexpr int64_t most_chunks = 0xffff;

  void assign(uint32_t loop, int64_t begin, int64_t end) {
    word_.store(pack(loop, static_cast<uint64_t>(begin), static_cast<uint64_t>(end)),
                std::memory_order_release);
  }
  template <bool front>
  std::optional<int64_t> take(uint32_t loop) {
    uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t begin = word >> 16 & 0xffff, end = word & 0xffff;
      if (static_cast<uint32_t>(word >> 32) != loop || begin == end) return std::nullopt;
      const uint64_t rest = front ? pack(loop, begin + 1, end) : pack(loop, begin, end - 1);
      if (word_.compare_exchange_weak(word, rest, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return static_cast<int64_t>(front ? begin : end - 1);
    }
  }

 private:
  static uint64_t pack(uint64_t loop, uint64_t begin, uint64_t end) {
    return loop << 32 | begin << 16 | end;
  }
  std::atomic<uint64_t> word_ = 0;
};

int default_count() { return std::min(available_cpus(), most_threads); }

class Pool {
 public:
  int size() const { return size_; }
  // Threads beyond `count` stay asleep.
  void resize(int count) { size_ = count; }

  void run(int64_t begin, int64_t end, int slots, ChunkCall call, void* context) {
    const int64_t chunks = end - begin;
    const auto alone = [&] {
      for (int64_t chunk = begin; chunk < end; ++chunk) call(context, chunk, 0);
    };
    if (size_ == 1 || chunks <= 1 || slots == 1 || in_chunk_) return alone();
    const WithinChunk within;
    if (busy_.exchange(true)) return alone();
    const Release release(busy_);
    if (solitude_.lasts()) return alone();
    start_threads();
    const auto sharing = static_cast<int>(std::min<int64_t>({size_, slots, chunks}));
    const auto next = static_cast<uint32_t>(loop_.load(std::memory_order_relaxed) + 1);
    call_.store(call, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    first_.store(begin, std::memory_order_relaxed);
    sharing_.store(sharing, std::memory_order_relaxed);
    left_.store(static_cast<int>(chunks), std::memory_order_relaxed);
    for (int t = 0; t < sharing; ++t)
      shares_[static_cast<size_t>(t)].assign(next, chunks * t / sharing,
                                             chunks * (t + 1) / sharing);
    publish();
    work(0, next);
    while (const int left = left_.load(std::memory_order_acquire))
      await_change(left_, left, spin_for_chunks);
    if (const std::exception_ptr error = std::exchange(error_, nullptr))
      std::rethrow_exception(error);
  }

 private:
  // Lets the next loop begin, also if this one throws.
  class Release {
   public:
    explicit Release(std::atomic<bool>& busy) : busy_(busy) {}
    ~Release() { busy_.store(false, std::memory_order_release); }
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;

   private:
    std::atomic<bool>& busy_;
  };

  // Marks the thread as running chunks, so that it runs loops within them alone.
  struct WithinChunk {
    WithinChunk() { in_chunk_ = true; }
    ~WithinChunk() { in_chunk_ = false; }
    WithinChunk(const WithinChunk&) = delete;
    WithinChunk& operator=(const WithinChunk&) = delete;
  };

  void publish() {
    loop_.fetch_add(1, std::memory_order_release);
    loop_.notify_all();
  }

  // The threads are never joined: a process that ends need not wait for them. In a forked process
  // they do not exist, and the calling thread takes their chunks.
  void start_threads() try {
    for (; started_ + 1 < size_; ++started_)
      std::thread([this, t = started_ + 1, seen = loop_.load()] { serve(t, seen); }).detach();
  } catch (const std::exception&) {
    size_ = started_ + 1;  // the number that the system allows
  }

  [[noreturn]] void serve(int t, int seen) {
    const WithinChunk within;
    block_signals();
    for (;;) {
      await_change(loop_, seen, spin_for_loop);
      seen = loop_.load(std::memory_order_acquire);
      work(t, static_cast<uint32_t>(seen));
    }
  }

  // Takes chunks of the loop until none is left. The values that it reads before its first chunk
  // may belong to another loop; if it gets a chunk, they do not.
  void work(int t, uint32_t loop) {
    const ChunkCall call = call_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    const int64_t first = first_.load(std::memory_order_relaxed);
    const int sharing = sharing_.load(std::memory_order_relaxed);
    if (t >= sharing) return;
    int done = 0;
    for (int at = t, tried = 0; tried < sharing; ++tried, at = at + 1 == sharing ? 0 : at + 1) {
      Share& share = shares_[static_cast<size_t>(at)];
      while (const auto chunk = at == t ? share.take<true>(loop) : share.take<false>(loop)) {
        try {
          call(context, first + *chunk, t);
        } catch (...) {
          const std::lock_guard lock(error_mutex_);
          if (!error_) error_ = std::current_exception();
        }
        ++done;
      }
    }
    if (done > 0 && left_.fetch_sub(done, std::memory_order_acq_rel) == done) left_.notify_one();
  }

  std::atomic<int> loop_ = 0, left_ = 0, sharing_ = 0;
  std::atomic<ChunkCall> call_ = nullptr;
  std::atomic<void*> context_ = nullptr;
  std::atomic<int64_t> first_ = 0;
  std::array<Share, most_threads> shares_;
  std::atomic<bool> busy_ = false;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  Solitude solitude_;
  int size_ = default_count(), started_ = 0;
  static thread_local bool in_chunk_;
};

thread_local bool Pool::in_chunk_ = false;

// The pool is never destroyed, because its threads never end.
Pool& pool() {
  static Pool& pool = *new Pool;
  return pool;
}

}  // namespace

int thread_count() { return pool().size(); }

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void set_thread_count(int count) {
  check(count >= 0 && count <= most_threads, "{} threads: expected 0 to {}", count, most_threads);
  pool().resize(count == 0 ? default_count() : count);
}

void run_chunks(int64_t chunks, int slots, ChunkCall call, void* context) {
  constexpr int64_t at_once = Share::most_chunks;
  for (int64_t begin = 0; begin < chunks; begin += at_once)
    pool().run(begin, std::min(chunks, begin + at_once), slots, call, context);
}

}  // namespace accrue
