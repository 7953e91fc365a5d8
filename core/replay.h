#pragma once

#include <functional>
#include <map>
#include <memory>

#include "core/cuda.h"
#include "core/profile.h"

namespace accrue {

enum class Graphs { off, on };
enum class Replay { no, yes };

// Runs and replays work that, for a given key, enqueues the same kernels on the same memory every
// time. On cuda it is run the first time, recorded as a CUDA graph the second time and replayed
// from then on, which costs one launch however many kernels it has. On other devices, and with
// Graphs::off, it is run every time. The work allocates from a pool of its own, because the replays
// go on writing to that memory. A recording does not include the host's part of the work, and
// nothing is recorded while a profile is being taken.
template <class Key>
class Replays {
 public:
  Replays(Device device, Graphs graphs) : on_(device == Device::cuda && graphs == Graphs::on) {
    if (on_) pool_ = cuda::blocks().new_pool();
  }

  ~Replays() {
    if (on_) cuda::blocks().drop_pool(pool_);
  }
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  // Returns true if it called work(). With Replay::no it neither records nor replays.
  bool run(const Key& key, const std::function<void()>& work, Replay replay = Replay::yes) {
    if (!on_ || Profile::current()) {
      work();
      return true;
    }
    if (replay == Replay::no) {
      const InPool pool(pool_);
      work();
      return true;
    }
    const auto found = graphs_.find(key);
    if (found != graphs_.end() && found->second) {
      found->second->launch();
      return false;
    }
    const InPool pool(pool_);
    if (found == graphs_.end()) {
      work();
      graphs_[key] = nullptr;
    } else {
      found->second = std::make_unique<cuda::Graph>(work);
      found->second->launch();
    }
    return true;
  }

  // True if anything is ever replayed.
  bool records() const { return on_; }

  // Forgets what was recorded under keys for which stale(key) holds.
  template <class Stale>
  void forget_if(Stale&& stale) {
    std::erase_if(graphs_, [&](const auto& entry) { return stale(entry.first); });
  }

 private:
  struct InPool {
    explicit InPool(BlockCache::Pool pool) : before(cuda::blocks().use_pool(pool)) {}
    ~InPool() { cuda::blocks().use_pool(before); }
    InPool(const InPool&) = delete;
    InPool& operator=(const InPool&) = delete;
    BlockCache::Pool before;
  };

  bool on_;
  BlockCache::Pool pool_ = BlockCache::common_pool;
  std::map<Key, std::unique_ptr<cuda::Graph>> graphs_;
};

}  // namespace accrue
