#pragma once

#include <algorithm>

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

// A window along one dimension of an image of `size` pixels: its places [begin, end) are pixels,
// and its mean divides by `count` of them and others.
struct PoolRange {
  int64_t begin, end, count;

  HOST_DEVICE PoolRange(int64_t window, int64_t size, int64_t kernel, int64_t stride,
                        int64_t padding, bool include_padding) {
    const int64_t first = window * stride - padding, behind = size + padding - first;
    begin = first < 0 ? -first : 0;
    end = kernel < size - first ? kernel : size - first;
    count = !include_padding ? end - begin : kernel < behind ? kernel : behind;
  }
};

// True if all places of all windows are pixels.
inline bool has_whole_windows(const Shape& x, const Shape& y, const Pool2dShape& s) {
  return s.padding == 0 && (y[2] - 1) * s.stride.h + s.kernel.h <= x[2] &&
         (y[3] - 1) * s.stride.w + s.kernel.w <= x[3];
}

}  // namespace accrue
