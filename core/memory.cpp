#include "core/memory.h"

#include <utility>

#include "core/cuda.h"
#include "core/host_blocks.h"

namespace accrue {

namespace {

// The bytes without the ledger's rounding, so that memory checkers see accesses beyond them.
size_t held_bytes(const AllocationInfo& info) { return bytes_of(info.dtype, info.shape.numel()); }

}  // namespace

Storage::Storage(const Shape& shape, DType dtype, Device device, Category category)
    : device_(device) {
  allocation_.emplace(shape, dtype, device, category);
  take_block();
}

Storage::Storage(const void* data, std::shared_ptr<const void> owner, const Shape& shape,
                 DType dtype, Category category)
    : device_(Device::cpu), data_(const_cast<void*>(data)), owner_(std::move(owner)) {
  allocation_.emplace(shape, dtype, Device::cpu, category);
}

Storage::~Storage() {
  if (owner_) return;
  if (on_host_ && on_host_->block) cuda::deallocate_on_host(on_host_->block);
  give_block();
}

void Storage::take_block() {
  const size_t bytes = held_bytes(info());
  if (is_meta(device_) || bytes == 0) return;
  const bool on_cuda = device_ == Device::cuda;
  data_ = on_cuda ? cuda::allocate(bytes) : host_blocks().take(bytes);
  if (data_) return;
  throw OutOfMemory(ledger(device_).shortage(
      *allocation_, on_cuda ? "the device has no more" : "the machine has no more"));
}

void Storage::give_block() {
  if (data_ && device_ == Device::cuda) cuda::deallocate(data_);
  else if (data_) host_blocks().give(data_, held_bytes(info()));
  data_ = nullptr;
}

void* Storage::address() {
  if (on_host_) [[unlikely]]
    return_from_host();
  return data_;
}

void* Storage::data() {
  void* const first = address();
  if (later_) [[unlikely]]
    compute_now();
  return first;
}

void Storage::compute_now() {
  std::unique_ptr<Compute> compute = std::exchange(later_, nullptr);
  try {
    (*compute)(data_);
  } catch (...) {
    later_ = std::move(compute);
    throw;
  }
}

void Storage::move_to_host() {
  if (on_host_) return;
  const AllocationInfo& here = info();
  const size_t bytes = held_bytes(here);
  const Device host = device_ == Device::cuda ? Device::cpu : Device::meta;
  auto moved = std::unique_ptr<OnHost>(
      new OnHost{here, Allocation(here.shape, here.dtype, host, here.category), nullptr});
  if (data_) {
    moved->block = cuda::allocate_on_host(bytes);
    if (!moved->block)
      throw OutOfMemory(
          ledger(host).shortage(moved->allocation, "the machine cannot page-lock more memory"));
    cuda::enqueue_copy_to_host(moved->block, data_, bytes);
    give_block();
  }
  on_host_ = std::move(moved);
  allocation_.reset();
}

void Storage::return_from_host() {
  const OnHost& moved = *on_host_;
  {
    const MemoryScope scope(moved.info.phase, moved.info.label);
    allocation_.emplace(moved.info.shape, moved.info.dtype, device_, moved.info.category);
  }
  try {
    take_block();
  } catch (...) {
    allocation_.reset();
    throw;
  }
  if (moved.block) {
    cuda::enqueue_copy_to_device(data_, moved.block, held_bytes(moved.info));
    cuda::deallocate_on_host(moved.block);
  }
  on_host_.reset();
}

}  // namespace accrue
