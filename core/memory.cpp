#include "core/memory.h"

#include "core/cuda.h"
#include "core/host_blocks.h"

namespace accrue {

namespace {

// Without the ledger's rounding, for memory checkers.
size_t bytes_of(const AllocationInfo& info) {
  return static_cast<size_t>(info.shape.numel()) * size_of(info.dtype);
}

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

Storage::~Storage() {
  if (data_ && device() == Device::cuda) cuda::deallocate(data_);
  else if (data_) host_blocks().give(data_, bytes_of(allocation_.info()));
}

}  // namespace accrue
