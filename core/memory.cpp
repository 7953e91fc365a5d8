#include "core/memory.h"

#include "core/cuda.h"
#include "core/host_blocks.h"

namespace accrue {

namespace {

// Without the ledger's rounding, for memory checkers.
size_t bytes_of(const AllocationInfo& info) { return bytes_of(info.dtype, info.shape.numel()); }

}  // namespace

Storage::Storage(const Shape& shape, DType dtype, Device device, Category category)
    : allocation_(shape, dtype, device, category) {
  const size_t bytes = bytes_of(allocation_.info());
  if (is_meta(device) || bytes == 0) return;
  const bool on_cuda = device == Device::cuda;
  data_ = on_cuda ? cuda::allocate(bytes) : host_blocks().take(bytes);
  if (data_) return;
  throw OutOfMemory(ledger(device).shortage(
      allocation_, on_cuda ? "the device has no more" : "the machine has no more"));
}

Storage::Storage(const void* data, std::shared_ptr<const void> owner, const Shape& shape,
                 DType dtype, Category category)
    : allocation_(shape, dtype, Device::cpu, category),
      data_(const_cast<void*>(data)),
      owner_(std::move(owner)) {}

Storage::~Storage() {
  if (owner_) return;
  if (data_ && device() == Device::cuda) cuda::deallocate(data_);
  else if (data_) host_blocks().give(data_, bytes_of(allocation_.info()));
}

}  // namespace accrue
