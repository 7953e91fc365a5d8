#pragma once

#include <array>
#include <cstdint>

#include "kernels/detail/cross_entropy_kernels.h"

namespace accrue {

// The weights of classes, by value: few, and known before any kernel is.
struct ClassWeights {
  static constexpr int64_t most = 64;
  std::array<float, most> of;

  HOST_DEVICE float operator[](int64_t c) const { return c < most ? of[size_t(c)] : 1; }
};

// Pixels whose losses are summed by one thread of the CPU, or by one block of CUDA; else as
// rows_per_block().
constexpr int64_t pixels_per_block(int64_t C) { return std::max<int64_t>(16384 / C, 256); }

}  // namespace accrue
