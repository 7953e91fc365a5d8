#pragma once

#include <algorithm>

#include "kernels/windows.h"

// Which convolution cuDNN computes in place of another, and in how much memory. Known from shapes
// alone, so that a meta device predicts it.
namespace accrue::cuda {

// The windows as cuDNN can see them: it pads both sides alike and infers the grid from that. Where
// this is another grid, the image is one that was padded with zeros before, from pixel
// (-padding, -padding) as far as the windows reach.
inline Windows as_symmetric(const Windows& s) {
  const auto reach = [&](int64_t grid, int64_t taps) {
    return (grid - 1) * s.stride + (taps - 1) * s.dilation + 1;
  };
  const auto fits = [&](int64_t image, int64_t grid, int64_t taps) {
    const int64_t unseen = image + 2 * s.padding - reach(grid, taps);
    return unseen >= 0 && unseen < s.stride;
  };
  Windows symmetric = s;
  if (fits(s.H, s.GH, s.KH) && fits(s.W, s.GW, s.KW)) return symmetric;
  symmetric.H = reach(s.GH, s.KH);
  symmetric.W = reach(s.GW, s.KW);
  symmetric.padding = 0;
  return symmetric;
}

// The padded image comes first in the workspace; 0 where there is none.
inline int64_t padded_image_bytes(const Windows& s, int64_t N, DType dtype) {
  constexpr int64_t alignment = 256;
  const Windows symmetric = as_symmetric(s);
  if (symmetric == s) return 0;
  const int64_t pixels = N * symmetric.C * symmetric.H * symmetric.W;
  return (pixels * int64_t(size_of(dtype)) + alignment - 1) / alignment * alignment;
}

// The weight gradient of one micro-batch, which correlate_windows() has at the end of its workspace
// where cuDNN computes it in 16 bits.
inline int64_t rounded_weights_bytes(const Windows& s, DType dtype) {
  return is_16_bit_dtype(dtype) ? s.O * s.taps() * int64_t(size_of(dtype)) : 0;
}

// After it cuDNN may use as much as the larger of image and grid takes: an algorithm that needs
// more would make the micro-batch that fits into memory smaller.
inline int64_t workspace_bytes(const Windows& s, int64_t N, DType dtype) {
  constexpr int64_t least = 4 << 20;
  const int64_t elements = N * std::max(s.C * s.H * s.W, s.O * s.GH * s.GW);
  return padded_image_bytes(s, N, dtype) + std::max(least, elements * int64_t(size_of(dtype)));
}

}  // namespace accrue::cuda
