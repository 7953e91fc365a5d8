#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/ledger.h"

namespace accrue::detail {

// One block of device memory for elements of a shape, on the ledger from construction to
// destruction.
class Storage {
 public:
  // Throws OutOfMemory.
  Storage(const Shape& shape, DType dtype, Device device, Category category);
  // A storage of elements on the host that `owner` keeps alive.
  Storage(const void* data, std::shared_ptr<const void> owner, const Shape& shape, DType dtype,
          Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  // The address of the elements on the device. If they were moved to the host, this moves them
  // back, in stream order, and may throw OutOfMemory. If they wait for compute_later(), this
  // computes them. Elements that wait belong to one thread at a time.
  void* data();
  // The same, but leaves them to wait.
  void* address();
  // Leaves the elements to compute(address()), which data() calls once, unless stop_waiting() is
  // called before. If compute() throws, the elements go on waiting.
  using Compute = std::function<void(void* address)>;
  void compute_later(Compute compute) { later_ = std::make_unique<Compute>(std::move(compute)); }
  bool is_waiting() const { return later_ != nullptr; }
  void stop_waiting() { later_.reset(); }
  Device device() const { return device_; }
  Category category() const { return info().category; }
  Label label() const { return info().label; }

  // Moves the elements of a storage on cuda to page-locked host memory, in stream order, until
  // data() asks for them. Meanwhile they count on the host's ledger. On meta_cuda only the ledgers
  // change, and meta's stands for the host's. Throws OutOfMemory.
  void move_to_host();

  // Counts how often elements were overwritten that a backward may need (Tensor::saved()). It is
  // atomic because threads may write to parts of one storage.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void overwritten() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct OnHost {
    AllocationInfo info;  // of the allocation on the device
    Allocation allocation;
    void* block;
  };
  void take_block();
  void give_block();
  void return_from_host();
  void compute_now();
  const AllocationInfo& info() const { return on_host_ ? on_host_->info : allocation_->info(); }

  const Device device_;
  // Counted from before the block is allocated until after it is freed. None while the elements are
  // on the host.
  std::optional<Allocation> allocation_;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;  // of borrowed elements; else null
  std::unique_ptr<OnHost> on_host_;
  std::atomic<uint32_t> version_ = 0;
  std::unique_ptr<Compute> later_;
};

}  // namespace accrue::detail
