#pragma once

// Ranks that are threads of one process. Ranks that are processes move the same bytes by MPI, say.

#include <accrue/accrue.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

// The place where the threads show each other their memory.
struct Meeting {
  explicit Meeting(int count) : all(count), shown(size_t(count)), blocks(size_t(count)) {}
  std::barrier<> all;
  std::vector<const void*> shown;
  std::vector<std::vector<const std::byte*>> blocks;
};

class ThreadRank : public accrue::Ranks {
 public:
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return int(meeting_.shown.size()); }

  void gather(void* all, const void* own, size_t bytes) override {
    show(own, [&] {
      for (size_t r = 0; r < meeting_.shown.size(); ++r)
        std::memcpy(static_cast<char*>(all) + r * bytes, meeting_.shown[r], bytes);
    });
  }
  void broadcast(void* data, size_t bytes, int from) override {
    show(data, [&] {
      if (rank_ != from) std::memcpy(data, meeting_.shown[size_t(from)], bytes);
    });
  }

 protected:
  // Done at once, though it need not be before exchanged(Wait::yes).
  void begin_exchange(accrue::Device, std::span<const Block> received,
                      std::span<const Block> sent) override {
    auto& mine = meeting_.blocks[size_t(rank_)];
    mine.clear();
    for (const Block block : sent) mine.push_back(block.data());
    show(nullptr, [&] {
      for (size_t r = 0; r < received.size(); ++r) {
        const std::byte* const from = meeting_.blocks[r][size_t(rank_)];
        if (!received[r].empty() && from != received[r].data())
          std::memcpy(received[r].data(), from, received[r].size());
      }
    });
  }
  bool exchanged(Wait) override { return true; }

 private:
  // Reads what the others show between two meetings.
  void show(const void* own, const std::function<void()>& read) {
    meeting_.shown[size_t(rank_)] = own;
    meeting_.all.arrive_and_wait();
    read();
    meeting_.all.arrive_and_wait();
  }

  Meeting& meeting_;
  const int rank_;
};

// Runs work(ranks) as each of `count` ranks at once.
inline void run_ranks(int count, const std::function<void(accrue::Ranks&)>& work) {
  Meeting meeting(count);
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      ThreadRank rank(meeting, r);
      work(rank);
    });
  for (std::thread& thread : threads) thread.join();
}
