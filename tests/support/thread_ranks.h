#pragma once

#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cuda.h"
#include "core/error.h"
#include "optim/ranks.h"
#include "tests/support/device.h"

namespace accrue::test {

// The state that the threads of run_ranks() share. If one throws, those that wait for it throw,
// too. Only one of them at a time uses cuda, whose stream is of the process: there they take turns,
// from one wait to the next.
class Meeting {
 public:
  explicit Meeting(int count) : blocks(static_cast<size_t>(count)), count_(count) {}

  std::vector<const void*> blocks;

  void begin_turn() {
    if (test_device() == Device::cuda) turn_.lock();
  }
  void end_turn() {
    if (test_device() == Device::cuda) turn_.unlock();
  }
  void wait() {
    end_turn();
    try {
      meet();
    } catch (...) {
      begin_turn();
      throw;
    }
    begin_turn();
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  void meet() {
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

  const int count_;
  std::mutex turn_, mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  int64_t round_ = 0;
  bool broken_ = false;
};

// The way of what ranks add up: as MPI's bytes, or as NCCL's.
enum class Way { through_host, in_place };

// A thread of this process as a rank.
class ThreadRank : public Ranks {
 public:
  ThreadRank(Meeting& meeting, int rank, Way way = Way::through_host)
      : meeting_(meeting), rank_(rank), way_(way) {}
  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(meeting_.blocks.size()); }
  bool reaches(Device) const override { return way_ == Way::in_place; }

  void gather(void* all, const void* own, size_t bytes) override { share(all, own, bytes, 0); }
  void broadcast(void* data, size_t bytes, int from) override {
    meeting_.blocks[static_cast<size_t>(rank_)] = data;
    meeting_.wait();
    if (rank_ != from) std::memcpy(data, meeting_.blocks[static_cast<size_t>(from)], bytes);
    meeting_.wait();
  }

 protected:
  void exchange(void* received, const void* sent, size_t bytes) override {
    share(received, sent, bytes, bytes * static_cast<size_t>(rank_));
  }
  void exchange_blocks(Device device, std::span<const Block> received,
                       std::span<const Block> sent) override {
    meeting_.blocks[static_cast<size_t>(rank_)] = &sent;
    meeting_.wait();
    for (size_t r = 0; r < received.size(); ++r) {
      const auto& theirs = *static_cast<const std::span<const Block>*>(meeting_.blocks[r]);
      const Block from = theirs[static_cast<size_t>(rank_)], to = received[r];
      check(from.size() == to.size(), "{} bytes sent, {} expected", from.size(), to.size());
      if (from.empty() || from.data() == to.data()) continue;
      if (device == Device::cuda) cuda::copy_on_device(to.data(), from.data(), from.size());
      else std::memcpy(to.data(), from.data(), from.size());
    }
    meeting_.wait();
  }

 private:
  void share(void* to, const void* from, size_t bytes, size_t offset) {
    meeting_.blocks[static_cast<size_t>(rank_)] = from;
    meeting_.wait();
    for (size_t r = 0; r < meeting_.blocks.size(); ++r)
      std::memcpy(static_cast<char*>(to) + r * bytes,
                  static_cast<const char*>(meeting_.blocks[r]) + offset, bytes);
    meeting_.wait();
  }

  Meeting& meeting_;
  const int rank_;
  const Way way_;
};

// Runs work(ranks) as each of `count` ranks at once, and rethrows what one throws. Catch's
// assertions are for the thread that calls.
inline void run_ranks(int count, const std::function<void(Ranks&)>& work,
                      Way way = Way::through_host) {
  Meeting meeting(count);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      meeting.begin_turn();
      try {
        ThreadRank ranks(meeting, r, way);
        work(ranks);
      } catch (...) {
        errors[static_cast<size_t>(r)] = std::current_exception();
        meeting.leave();
      }
      meeting.end_turn();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace accrue::test
