#include "core/memory.h"

#include "core/cuda.h"
#include "core/host_blocks.h"

namespace accrue {

Storage::Storage(const Shape& shape, DType dtype, Device device, Category category)
    : allocation_(shape, dtype, device, category) {
  const size_t bytes = allocation_.info().bytes;
  if (is_meta(device) || bytes == 0) return;
  const bool on_cuda = device == Device::cuda;
  // On cuda without the rounding, for memory checkers.
  data_ = on_cuda ? cuda::allocate(static_cast<size_t>(shape.numel()) * size_of(dtype))
                  : host_blocks().take(bytes);
  if (data_) return;
  throw OutOfMemory(ledger(device).shortage(
      allocation_, on_cuda ? "the device has no more" : "the machine has no more"));
}

Storage::~Storage() {
  if (data_ && device() == Device::cuda) cuda::deallocate(data_);
  else if (data_) host_blocks().give(data_, allocation_.info().bytes);
}

}  // namespace accrue
