#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "accumulate/ranks.h"
#include "core/cuda.h"
#include "core/error.h"
#include "tests/support/device.h"

namespace accrue::test {

// The state that the threads of run_ranks() share. If one thread throws, the threads that wait for
// it throw, too. Only one thread at a time uses cuda, because the process has one stream: there the
// threads take turns, from one wait to the next.
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

  // A block under way from one rank to another. Until the receiver takes it, the receiver's block
  // is poisoned, and the sender must not change its own.
  struct Message {
    std::span<const std::byte> block;
    std::vector<std::byte> as_sent;  // its content, if it is on the host
  };
  void send(int from, int to, Message message) {
    const std::lock_guard lock(mutex_);
    under_way_[{from, to}].push_back(std::move(message));
    changed_.notify_all();
  }
  // Takes the oldest message by take(message), if there is one.
  template <class Take>
  bool receive(int from, int to, Take&& take) {
    const std::lock_guard lock(mutex_);
    auto& messages = under_way_[{from, to}];
    if (messages.empty()) return false;
    take(messages.front());
    messages.pop_front();
    changed_.notify_all();
    return true;
  }
  // True if the receivers have taken all messages of a rank.
  bool all_taken(int from) {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(under_way_, [&](const auto& route) {
      return route.first.first != from || route.second.empty();
    });
  }
  // Waits until something changes, or for a moment.
  void wait_for_messages() {
    end_turn();
    {
      std::unique_lock lock(mutex_);
      if (!broken_) changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    begin_turn();
    check(!broken_, "another rank has failed");
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
  std::atomic<bool> broken_ = false;
  std::map<std::pair<int, int>, std::deque<Message>> under_way_;  // by sender and receiver
};

// How values travel between ranks: through the host, as with MPI, or in place, as with NCCL.
enum class Way { through_host, in_place };

// A thread of this process as a rank.
class ThreadRank : public Ranks {
 public:
  ThreadRank(Meeting& meeting, int rank, Way way = Way::through_host)
      : meeting_(meeting), rank_(rank), way_(way) {}
  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(meeting_.blocks.size()); }
  bool reaches(Device) const override { return way_ == Way::in_place; }
  // The number of exchanges so far.
  int begun() const { return begun_; }

  void gather(void* all, const void* own, size_t bytes) override { share(all, own, bytes, 0); }
  void broadcast(void* data, size_t bytes, int from) override {
    meeting_.blocks[static_cast<size_t>(rank_)] = data;
    meeting_.wait();
    if (rank_ != from) std::memcpy(data, meeting_.blocks[static_cast<size_t>(from)], bytes);
    meeting_.wait();
  }

 protected:
  void begin_exchange(Device device, std::span<const Block> received,
                      std::span<const Block> sent) override {
    const auto own = static_cast<size_t>(rank_);
    if (received[own].data() != sent[own].data()) copy(device, received[own], sent[own]);
    for (int r = 0; r < count(); ++r) {
      if (r == rank_) continue;
      const Block to = received[static_cast<size_t>(r)], from = sent[static_cast<size_t>(r)];
      if (device == Device::cpu) std::ranges::fill(to, std::byte{0xff});
      expected_.push_back({device, r, to});
      Meeting::Message message{from, {}};
      if (device == Device::cpu) message.as_sent.assign(from.begin(), from.end());
      meeting_.send(rank_, r, std::move(message));
    }
    not_before_ = 2;
    ++begun_;
  }
  // Answers late: false for the first two calls, unless the rank waits.
  bool exchanged(Wait wait) override {
    if (wait == Wait::no && not_before_-- > 0) return false;
    while (!receive_all() || !meeting_.all_taken(rank_)) {
      if (wait == Wait::no) return false;
      meeting_.wait_for_messages();
    }
    return true;
  }

 private:
  struct Expected {
    Device device;
    int from;
    Block to;
  };

  static void copy(Device device, Block to, std::span<const std::byte> from) {
    check(from.size() == to.size(), "{} bytes sent, {} expected", from.size(), to.size());
    if (from.empty()) return;
    if (device == Device::cuda) cuda::copy_on_device(to.data(), from.data(), from.size());
    else std::memcpy(to.data(), from.data(), from.size());
  }

  bool receive_all() {
    while (!expected_.empty()) {
      const Expected next = expected_.front();
      const auto take = [&](const Meeting::Message& message) {
        check(next.device != Device::cpu || std::ranges::equal(message.block, message.as_sent),
              "a block was changed while it was being sent");
        copy(next.device, next.to, message.block);
      };
      const bool received = meeting_.receive(next.from, rank_, take);
      if (!received) return false;
      expected_.pop_front();
    }
    return true;
  }

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
  std::deque<Expected> expected_;
  int not_before_ = 0, begun_ = 0;
};

// Runs work(ranks) as each of `count` ranks at once, and rethrows the exception of one. Catch's
// macros work on the calling thread alone: work() stores its results, or throws by check()
// (core/error.h).
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
