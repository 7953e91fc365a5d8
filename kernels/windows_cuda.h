#pragma once

#include <algorithm>

#include "kernels/windows.h"

// Which convolution cuDNN computes in place of another, and in how much memory. Known from shapes
// alone, so that a meta device predicts it.
namespace accrue::cuda {

// What cuDNN's tensors have fewer elements than. One image is the least that can be computed.
inline constexpr int64_t too_many_elements = int64_t{1} << 31;

// The parts of a workspace start at 256 bytes, as what cudaMalloc gives does.
inline int64_t whole_parts(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The windows on an image that was padded with zeros before, from pixel (-padding, -padding) as far
// as the windows reach.
inline Windows as_padded(const Windows& s) {
  const auto reach = [&](int64_t grid, int64_t taps) {
    return (grid - 1) * s.stride + (taps - 1) * s.dilation + 1;
  };
  Windows padded = s;
  padded.H = reach(s.GH, s.KH);
  padded.W = reach(s.GW, s.KW);
  padded.padding = 0;
  return padded;
}

// The windows as cuDNN can see them: it pads both sides alike and infers the grid from that. Where
// this is another grid, the image is padded before.
inline Windows as_symmetric(const Windows& s) {
  const Windows padded = as_padded(s);
  const auto fits = [&](int64_t image, int64_t reach) {
    const int64_t unseen = image + 2 * s.padding - reach;
    return unseen >= 0 && unseen < s.stride;
  };
  return fits(s.H, padded.H) && fits(s.W, padded.W) ? s : padded;
}

inline int64_t image_bytes(const Windows& s, int64_t N, DType dtype) {
  return whole_parts(N * s.C * s.H * s.W * int64_t(size_of(dtype)));
}
inline int64_t grid_bytes(const Windows& s, int64_t N, DType dtype) {
  return whole_parts(N * s.O * s.GH * s.GW * int64_t(size_of(dtype)));
}
inline int64_t weights_bytes(const Windows& s, DType dtype) {
  return whole_parts(s.O * s.taps() * int64_t(size_of(dtype)));
}

// The weight gradient of one micro-batch, which correlate_windows() has in its workspace where
// cuDNN computes it in 16 bits.
inline int64_t rounded_weights_bytes(const Windows& s, DType dtype) {
  return is_16_bit_dtype(dtype) ? weights_bytes(s, dtype) : 0;
}

// What cuDNN's algorithms may use. In 16 bits tensor cores want channels last, and in eights, so
// that image, grid and weights are transposed, and one of them twice. For others as much as the
// larger of image and grid takes: an algorithm that needs more would make the micro-batch that fits
// into memory smaller.
inline int64_t algorithm_bytes(const Windows& s, int64_t N, DType dtype) {
  if (!is_16_bit_dtype(dtype)) return std::max(image_bytes(s, N, dtype), grid_bytes(s, N, dtype));
  const auto eights = [](int64_t channels) { return (channels + 7) / 8 * 8; };
  Windows padded = s;
  padded.C = eights(s.C);
  padded.O = eights(s.O);
  return image_bytes(padded, N, dtype) + grid_bytes(padded, N, dtype) +
         2 * weights_bytes(padded, dtype);
}

// The padded image, where there is one, and what the algorithm may use; enough at least to compute
// a single image with copies of all operands, which those need that start between 16 bytes.
// Throws Error if an image is too large for cuDNN.
inline int64_t workspace_bytes(const Windows& s, int64_t N, DType dtype) {
  constexpr int64_t least = 4 << 20, frugal = 1 << 20;
  const Windows symmetric = as_symmetric(s), padded = as_padded(s);
  const int64_t largest =
      std::max({symmetric.C * symmetric.H * symmetric.W, s.O * s.GH * s.GW, s.O * s.taps()});
  check(largest < too_many_elements,
        "a convolution of images [{}, {}, {}] to [{}, {}, {}] by weights [{}, {}, {}, {}] on cuda: "
        "cuDNN's tensors have fewer than 2^31 elements, and one of these has {} for a single "
        "image. Use smaller images or fewer channels",
        s.C, s.H, s.W, s.O, s.GH, s.GW, s.O, s.C, s.KH, s.KW, largest);
  const int64_t copies = std::max(image_bytes(s, 1, dtype), image_bytes(padded, 1, dtype)) +
                         grid_bytes(s, 1, dtype) + weights_bytes(s, dtype);
  return (symmetric == s ? 0 : image_bytes(symmetric, N, dtype)) +
         std::max({least, algorithm_bytes(s, N, dtype), copies + frugal});
}

}  // namespace accrue::cuda
