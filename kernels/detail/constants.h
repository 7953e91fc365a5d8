#pragma once

#include <array>
#include <span>

#include "core/tensor.h"
#include "kernels/backend.h"

namespace accrue {

// Numbers that the host knows, by value: they reach a device as a kernel's arguments, also where
// the kernel is recorded (core/replay.h), which a copy from the host's memory may not be.
struct Constants {
  static constexpr int64_t most = 256;
  std::array<double, most> values;
};

// These numbers as f64 [n] on a device, n at least 1.
Tensor constants_on(Device device, std::span<const double> values);

}  // namespace accrue
