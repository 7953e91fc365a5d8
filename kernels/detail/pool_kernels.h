#pragma once

#include "kernels/backend.h"
#include "kernels/pool.h"

namespace accrue {

// Stored in place of a winner where relu lets nothing through; with relu no pixel of a window has
// this index.
inline constexpr uint8_t no_winner = 255;

// True if v beats the best pixel before it in the window. An equal v does not, and a NaN always
// does.
template <class T>
HOST_DEVICE bool wins(T v, T best) {
  return (v > best) | (v != v);
}

}  // namespace accrue
