#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>

#include "core/random.h"

// Draws the generated data sets with the same bits on every machine. Geometry is in double: sin and
// cos differ between libraries in the last bit, but rounding to float removes the difference.
// Pixels are in float with exactly rounded operations only, noise is in integers, and the compiler
// must not fuse multiply-adds (see CMakeLists.txt).

namespace accrue {

inline constexpr int side = 28;
inline constexpr double pi = std::numbers::pi;

struct Point {
  double x, y;  // y downwards
};

// Draws uniformly in [low, high), in double, unlike RandomStream::uniform().
inline double between(RandomStream& random, double low, double high) {
  return low + (high - low) * (random.next() * 0x1p-32);
}

// A grey value with triangular noise of up to +-strength, as a byte.
inline uint8_t noisy(int value, int strength, RandomStream& random) {
  const uint32_t word = random.next();
  const int noise = static_cast<int>(word & 0xff) - static_cast<int>(word >> 8 & 0xff);
  return static_cast<uint8_t>(std::clamp(value + noise * strength / 256, 0, 255));
}

}  // namespace accrue
