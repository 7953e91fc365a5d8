#pragma once

#include <cstdint>

namespace accrue {

// Labels that are counted by one thread of the CPU, or by one block of CUDA.
inline constexpr int64_t judged_block = 16384;

}  // namespace accrue
