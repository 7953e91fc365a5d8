#pragma once

#include <cstdint>

namespace accrue {

// Elements summed by one thread of the CPU, or by one block of CUDA: fixed, so that the sum
// depends neither on the number of threads nor on the device's size.
inline constexpr int64_t elements_per_block = 16384;

}  // namespace accrue
