#pragma once

#include <memory>
#include <vector>

#include "core/inside.h"
#include "core/usage.h"

namespace accrue {

namespace detail {
class Storage;
}  // namespace detail

// The activations and samples of a computation on cuda that is suspended for a while. Its owner
// moves them to the host meanwhile. Each storage comes back when its elements are asked for
// (Storage::data()). Raw views from before the move are invalid.
class Offload {
 public:
  // While alive, the allocations of this thread belong to the computation.
  class Scope {
   public:
    explicit Scope(Offload& offload) : before_(of_this_thread) { of_this_thread = &offload; }
    ~Scope() { of_this_thread = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Offload* const before_;
  };
  // Tensor calls this for each storage that it allocates.
  static void note(const std::shared_ptr<Storage>& storage) {
    if (of_this_thread) [[unlikely]]
      of_this_thread->add(storage);
  }

  // Moves the storages that are still alive. Throws OutOfMemory if the host has no room.
  void move_to_host();

 private:
  void add(const std::shared_ptr<Storage>& storage);

  static thread_local constinit Offload* of_this_thread;
  std::vector<std::weak_ptr<Storage>> storages_;
};

}  // namespace accrue
