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
// time. On cuda it runs the work the first time, records it as a CUDA graph the second time, and
// replays the graph from then on. A replay costs one launch, however many kernels the graph has. On
// other devices, and with Graphs::off, the work runs every time. It allocates from a separate pool,
// because later replays write to the same memory. A recording does not include the host's part of
// the work, and nothing is recorded during a profile. If CUDA refuses a recording, nothing of the
// attempt has run on the device: the work is called once more, and then every time.
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

  // False if work is never replayed.
  bool records() const { return on_; }

  // Forgets the recordings of keys for which stale(key) is true.
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
