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

// The sizes [N, C, H, W] of images whose channels lie first or last.
inline Shape image_sizes(const Shape& x, Channels channels) {
  return channels == Channels::first ? x : Shape{x[0], x[3], x[1], x[2]};
}

// The rows and columns that a window reaches over.
inline PerAxis extent_of(const Pool2dShape& s) {
  return {(s.kernel.h - 1) * s.dilation.h + 1, (s.kernel.w - 1) * s.dilation.w + 1};
}

// True if all places of all windows are pixels.
inline bool has_whole_windows(const Shape& x, const Shape& y, const Pool2dShape& s) {
  const PerAxis extent = extent_of(s);
  return s.padding == 0 && (y[2] - 1) * s.stride.h + extent.h <= x[2] &&
         (y[3] - 1) * s.stride.w + extent.w <= x[3];
}

// True for windows of 2 x 2 pixels side by side, all within the image.
inline bool has_usual_windows(const Shape& x, const Shape& y, const Pool2dShape& s) {
  return s.kernel == 2 && s.stride == 2 && s.dilation == 1 && has_whole_windows(x, y, s);
}

}  // namespace accrue
