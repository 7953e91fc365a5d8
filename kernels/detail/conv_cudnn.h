#pragma once

#include <algorithm>

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/inside.h"
#include "kernels/detail/conv_geometry.h"

// Which convolution cuDNN computes in place of another, and in how much memory. Known from shapes
// alone, so that a meta device predicts it.
namespace accrue::cuda {

// cuDNN's tensors have fewer elements than this. One image is the least that can be computed.
inline constexpr int64_t too_many_elements = int64_t{1} << 31;

// The parts of a workspace start at 256 bytes, as what cudaMalloc gives does.
inline int64_t whole_parts(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The geometry on an image that was padded with zeros before, from pixel (-padding, -padding) as
// far as the grid sees.
inline ConvGeometry as_padded(const ConvGeometry& g) {
  const auto reach = [&](int64_t grid, int64_t taps) {
    return (grid - 1) * g.stride + (taps - 1) * g.dilation + 1;
  };
  ConvGeometry padded = g;
  padded.H = reach(g.GH, g.KH);
  padded.W = reach(g.GW, g.KW);
  padded.padding = 0;
  return padded;
}

// The geometry as cuDNN can see it: it pads both sides alike and infers the grid from that. Where
// this is another grid, the image is padded before.
inline ConvGeometry as_symmetric(const ConvGeometry& g) {
  const ConvGeometry padded = as_padded(g);
  const auto fits = [&](int64_t image, int64_t reach) {
    const int64_t unseen = image + 2 * g.padding - reach;
    return unseen >= 0 && unseen < g.stride;
  };
  return fits(g.H, padded.H) && fits(g.W, padded.W) ? g : padded;
}

inline int64_t image_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  return whole_parts(N * g.C * g.H * g.W * int64_t(size_of(dtype)));
}
inline int64_t grid_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  return whole_parts(N * g.O * g.GH * g.GW * int64_t(size_of(dtype)));
}
inline int64_t weights_bytes(const ConvGeometry& g, DType dtype) {
  return whole_parts(g.O * g.taps() * int64_t(size_of(dtype)));
}

// True where tensor cores multiply. They want channels last, and in eights: cuDNN transposes
// images, grid and weights in its workspace, and backward it has no other kernels for them.
inline bool uses_tensor_cores(DType dtype) {
  return is_16_bit_dtype(dtype) || (dtype == DType::f32 && allows_tf32());
}

inline ConvGeometry in_eights(ConvGeometry g) {
  const auto eights = [](int64_t channels) { return (channels + 7) / 8 * 8; };
  g.C = eights(g.C);
  g.O = eights(g.O);
  return g;
}

// The bytes that cuDNN's algorithms may use. For tensor cores they are image, grid and weights,
// transposed, and one of them twice. For others as much as the larger of image and grid takes: an
// algorithm that needs more would make the micro-batch that fits into memory smaller.
inline int64_t algorithm_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  if (!uses_tensor_cores(dtype)) return std::max(image_bytes(g, N, dtype), grid_bytes(g, N, dtype));
  const ConvGeometry padded = in_eights(g);
  return image_bytes(padded, N, dtype) + grid_bytes(padded, N, dtype) +
         2 * weights_bytes(padded, dtype);
}

// The bytes of what a weight gradient on tensor cores is summed from. A gradient has too few tiles
// of 128 x 128 sums to occupy a large GPU's 132 multiprocessors, twice each, so the sum over images
// and pixels is split among blocks, each with a part in float32. Two parts at least, whatever the
// size: the gradient in its own layout, and what is added to it.
inline int64_t split_sum_bytes(const ConvGeometry& g, DType dtype) {
  if (!uses_tensor_cores(dtype)) return 0;
  constexpr int64_t blocks = 2 * 132, tile = 128 * 128;
  const ConvGeometry padded = in_eights(g);
  const int64_t sums = padded.O * padded.taps();
  return whole_parts(std::max(2 * sums, blocks * std::min(sums, tile)) * int64_t(sizeof(float)));
}

// The padded image, where there is one, a copy of w, where filters lie apart, which cuDNN does not
// know, and what the algorithm may use, with so many bytes of split sums; enough at least to
// compute a single image with copies of all operands, which those need that start between 16 bytes.
// Throws Error if an image is too large for cuDNN.
inline int64_t workspace_bytes(const ConvGeometry& g, int64_t N, DType dtype,
                               int64_t split_sums = 0) {
  constexpr int64_t least = 4 << 20, modest = 1 << 20;
  const ConvGeometry symmetric = as_symmetric(g), padded = as_padded(g);
  const int64_t largest =
      std::max({symmetric.C * symmetric.H * symmetric.W, g.O * g.GH * g.GW, g.O * g.taps()});
  check(largest < too_many_elements,
        "a convolution of images [{}, {}, {}] to [{}, {}, {}] by weights [{}, {}, {}, {}] on cuda: "
        "cuDNN's tensors have fewer than 2^31 elements, and one of these has {} for a single "
        "image. Use smaller images or fewer channels",
        g.C, g.H, g.W, g.O, g.GH, g.GW, g.O, g.C, g.KH, g.KW, largest);
  const int64_t copies = std::max(image_bytes(g, 1, dtype), image_bytes(padded, 1, dtype)) +
                         grid_bytes(g, 1, dtype) + weights_bytes(g, dtype);
  const int64_t of_one =
      uses_tensor_cores(dtype)
          ? std::max(algorithm_bytes(g, 1, dtype), algorithm_bytes(padded, 1, dtype)) + split_sums
          : modest;
  return (symmetric == g ? 0 : image_bytes(symmetric, N, dtype)) +
         (g.has_part_of_w() ? weights_bytes(g, dtype) : 0) +
         std::max({least, algorithm_bytes(symmetric, N, dtype) + split_sums, copies + of_one});
}

// The bytes for a weight gradient. One of 16 bits is there before it is widened into a sum over
// micro-batches.
inline int64_t correlate_workspace_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  return workspace_bytes(g, N, dtype, split_sum_bytes(g, dtype)) +
         (is_16_bit_dtype(dtype) ? weights_bytes(g, dtype) : 0);
}

}  // namespace accrue::cuda
