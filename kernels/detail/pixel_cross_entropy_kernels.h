#pragma once

#include <cstdint>

#include "kernels/detail/class_weights.h"
#include "kernels/detail/cross_entropy_kernels.h"

namespace accrue {

// Pixels whose losses are summed by one thread of the CPU, or by one block of CUDA; else as
// rows_per_block().
constexpr int64_t pixels_per_block(int64_t C) { return std::max<int64_t>(16384 / C, 256); }

}  // namespace accrue
