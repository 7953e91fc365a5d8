#include "core/readback.h"

#include <cstring>

#include "core/inside.h"

namespace accrue {

Readback::Readback(Device device, size_t bytes, int slots)
    : device_(device), bytes_(bytes), slots_(slots) {
  const size_t all = bytes * static_cast<size_t>(slots);
  if (device == Device::cuda) {
    pinned_ = std::make_unique<cuda::PinnedBlock>(all, Category::workspace);
    memory_ = pinned_->data();
    for (int i = 0; i < slots; ++i) arrived_.push_back(std::make_unique<cuda::Event>());
  } else {
    on_host_.resize(all);
    memory_ = on_host_.data();
  }
}

Readback::~Readback() {
  if (device_ != Device::cuda) return;
  try {
    for (; popped_ < pushed_; ++popped_) arrived_[static_cast<size_t>(popped_ % slots_)]->wait();
  } catch (const Error&) {
    // The device failed, so it will not write any more.
  }
}

void Readback::push(const void* from) {
  check(!full(), "{} values are under way from {} already: pop() one first", slots_, name(device_));
  if (device_ == Device::cpu) std::memcpy(slot(pushed_), from, bytes_);
  if (device_ == Device::cuda) {
    cuda::enqueue_copy_to_host(slot(pushed_), from, bytes_);
    arrived_[static_cast<size_t>(pushed_ % slots_)]->record();
  }
  ++pushed_;
}

bool Readback::ready() const {
  if (under_way() == 0) return false;
  return device_ != Device::cuda || arrived_[static_cast<size_t>(popped_ % slots_)]->reached();
}

void Readback::pop(void* to) {
  check(under_way() > 0, "no value is under way from {}", name(device_));
  if (device_ == Device::cuda) arrived_[static_cast<size_t>(popped_ % slots_)]->wait();
  std::memcpy(to, slot(popped_), bytes_);
  ++popped_;
}

}  // namespace accrue
