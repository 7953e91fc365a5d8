#pragma once

#include <cstdint>

namespace accrue {

// The number of elements that one thread of the CPU, or one block of CUDA, adds up. It is fixed, so
// the sum depends neither on the number of threads nor on the device's size.
inline constexpr int64_t elements_per_block = 16384;

}  // namespace accrue
