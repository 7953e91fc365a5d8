#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

// One dimension of adaptive_avg_pool2d: `size` pixels in `windows` windows.
struct AdaptiveAxis {
  int64_t size, windows;

  HOST_DEVICE int64_t begin(int64_t window) const { return window * size / windows; }
  HOST_DEVICE int64_t end(int64_t window) const {
    return ((window + 1) * size + windows - 1) / windows;
  }
  HOST_DEVICE int64_t count(int64_t window) const { return end(window) - begin(window); }
  // The windows [first_with(p), last_with(p)] hold pixel p.
  HOST_DEVICE int64_t first_with(int64_t p) const { return p * windows / size; }
  HOST_DEVICE int64_t last_with(int64_t p) const { return ((p + 1) * windows - 1) / size; }
};

namespace cpu {

void adaptive_avg_pool2d(View y, View x);
void adaptive_avg_pool2d_backward(GradTarget dx, View dy);

}  // namespace cpu

namespace cuda {
decltype(cpu::adaptive_avg_pool2d) adaptive_avg_pool2d;
decltype(cpu::adaptive_avg_pool2d_backward) adaptive_avg_pool2d_backward;
}  // namespace cuda
}  // namespace accrue
