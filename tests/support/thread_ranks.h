#pragma once

#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "optim/ranks.h"

namespace accrue::test {

// The state that the threads of run_ranks() share. If one throws, those that wait for it throw,
// too.
class Meeting {
 public:
  explicit Meeting(int count) : blocks(static_cast<size_t>(count)), count_(count) {}

  std::vector<const char*> blocks;

  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++here_ == count_) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || broken_; });
    check(round_ != round, "another rank has failed");
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  int64_t round_ = 0;
  bool broken_ = false;
};

// A thread of this process as a rank.
class ThreadRank : public Ranks {
 public:
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(meeting_.blocks.size()); }

  void gather(void* all, const void* own, size_t bytes) override { share(all, own, bytes, 0); }
  void broadcast(void* data, size_t bytes, int from) override {
    meeting_.blocks[static_cast<size_t>(rank_)] = static_cast<const char*>(data);
    meeting_.wait();
    if (rank_ != from) std::memcpy(data, meeting_.blocks[static_cast<size_t>(from)], bytes);
    meeting_.wait();
  }

 protected:
  void exchange(void* received, const void* sent, size_t bytes) override {
    share(received, sent, bytes, bytes * static_cast<size_t>(rank_));
  }

 private:
  void share(void* to, const void* from, size_t bytes, size_t offset) {
    meeting_.blocks[static_cast<size_t>(rank_)] = static_cast<const char*>(from);
    meeting_.wait();
    for (size_t r = 0; r < meeting_.blocks.size(); ++r)
      std::memcpy(static_cast<char*>(to) + r * bytes, meeting_.blocks[r] + offset, bytes);
    meeting_.wait();
  }

  Meeting& meeting_;
  const int rank_;
};

// Runs work(ranks) as each of `count` ranks at once, and rethrows what one throws. Catch's
// assertions are for the thread that calls.
inline void run_ranks(int count, const std::function<void(Ranks&)>& work) {
  Meeting meeting(count);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      try {
        ThreadRank ranks(meeting, r);
        work(ranks);
      } catch (...) {
        errors[static_cast<size_t>(r)] = std::current_exception();
        meeting.leave();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace accrue::test
