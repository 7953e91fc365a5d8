#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace accrue {

// Buffers that no call uses, kept for the next, because a cache is worth most once it is filled.
template <class Buffers>
class Idle {
 public:
  std::unique_ptr<Buffers> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Buffers>();
    auto taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void give_back(std::unique_ptr<Buffers> buffers) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffers));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffers>> idle_;
};

}  // namespace accrue
