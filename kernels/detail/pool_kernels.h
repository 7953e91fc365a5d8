#pragma once

#include "kernels/backend.h"
#include "kernels/pool.h"

namespace accrue {

// Stands in place of a winner where relu lets nothing through: no window has so many pixels then.
inline constexpr uint8_t no_winner = 255;

// True if v takes the window from the best pixel before it: the first of equal ones stays, and a
// NaN comes through.
template <class T>
HOST_DEVICE bool wins(T v, T best) {
  return (v > best) | (v != v);
}

}  // namespace accrue
