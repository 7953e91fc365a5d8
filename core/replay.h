#pragma once

#include <functional>
#include <map>
#include <memory>

#include "core/cuda.h"
#include "core/profile.h"
#include "core/refused_graphs.h"

namespace accrue {

// Whether work on cuda is recorded as a graph and replayed.
enum class Graphs { off, on };

namespace detail {

enum class Replay { no, yes };

// Runs and replays work that, for a given key, enqueues the same kernels on the same memory every
// time. On cuda it is run the first time, recorded as a CUDA graph the second time and replayed
// from then on, which costs one launch however many kernels it has. On other devices, and with
// Graphs::off, it is run every time. The work allocates from a pool of its own, because the replays
// go on writing to that memory. A recording does not include the host's part of the work, and
// nothing is recorded while a profile is being taken. Work that CUDA refuses to record is run every
// time; after the attempt, of which nothing has run on the device, it is called once more.
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
    Known& known = known_[key];
    if (known.graph) {
      known.graph->launch();
      return false;
    }
    const InPool pool(pool_);
    if (known.next == Next::record) {
      try {
        known.graph = std::make_unique<cuda::Graph>(work);
      } catch (const OutOfMemory&) {
        throw;
      } catch (const Error& refusal) {
        known.next = Next::run;
        cuda::add_refused_graph(refusal.what());
      }
    }
    if (known.graph) known.graph->launch();
    else work();
    if (known.next == Next::run_first) known.next = Next::record;
    return true;
  }

  // True if anything is ever replayed.
  bool records() const { return on_; }

  // Forgets what was recorded under keys for which stale(key) holds.
  template <class Stale>
  void forget_if(Stale&& stale) {
    std::erase_if(known_, [&](const auto& entry) { return stale(entry.first); });
  }

 private:
  struct InPool {
    explicit InPool(BlockCache::Pool pool) : before(cuda::blocks().use_pool(pool)) {}
    ~InPool() { cuda::blocks().use_pool(before); }
    InPool(const InPool&) = delete;
    InPool& operator=(const InPool&) = delete;
    BlockCache::Pool before;
  };

  enum class Next { run_first, record, run };
  struct Known {
    Next next = Next::run_first;  // unless it has a graph
    std::unique_ptr<cuda::Graph> graph{};
  };

  bool on_;
  BlockCache::Pool pool_ = BlockCache::common_pool;
  std::map<Key, Known> known_;
};

}  // namespace detail

}  // namespace accrue
