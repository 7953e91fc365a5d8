#pragma once

#include <algorithm>

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/inside.h"
#include "kernels/detail/conv_geometry.h"

// These functions tell which convolution cuDNN computes in place of another, and in how much
// memory. They need no data, so a meta device can predict the memory.
namespace accrue::cuda {

// cuDNN's tensors have fewer elements than this. The smallest part of a call is one image.
inline constexpr int64_t too_many_elements = int64_t{1} << 31;

// Each part of a workspace starts at a multiple of 256 bytes, like memory from cudaMalloc.
inline int64_t whole_parts(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The geometry on an image that was padded with zeros before, from pixel (-padding.h, -padding.w)
// as far as the grid sees.
inline ConvGeometry as_padded(const ConvGeometry& g) {
  ConvGeometry padded = g;
  padded.H = (g.GH - 1) * g.stride.h + (g.KH - 1) * g.dilation.h + 1;
  padded.W = (g.GW - 1) * g.stride.w + (g.KW - 1) * g.dilation.w + 1;
  padded.padding = 0;
  return padded;
}

// The geometry in a form that cuDNN can compute. cuDNN pads both sides alike and infers the grid
// from that. Where it would infer another grid, the image is padded beforehand.
inline ConvGeometry as_symmetric(const ConvGeometry& g) {
  const ConvGeometry padded = as_padded(g);
  const auto fits = [](int64_t image, int64_t reach, int64_t padding, int64_t stride) {
    const int64_t unseen = image + 2 * padding - reach;
    return unseen >= 0 && unseen < stride;
  };
  return fits(g.H, padded.H, g.padding.h, g.stride.h) &&
                 fits(g.W, padded.W, g.padding.w, g.stride.w)
             ? g
             : padded;
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

// True where tensor cores multiply. They need channels last, in groups of eight: cuDNN transposes
// images, grid and weights in its workspace. For backward it has no other kernels on tensor cores.
inline bool uses_tensor_cores(DType dtype) {
  return is_16_bit_dtype(dtype) || (dtype == DType::f32 && allows_tf32());
}

// Each group's channels, in eights.
inline ConvGeometry in_eights(ConvGeometry g) {
  const auto eights = [&](int64_t channels) {
    return (channels / g.groups + 7) / 8 * 8 * g.groups;
  };
  g.C = eights(g.C);
  g.O = eights(g.O);
  return g;
}

// The bytes that cuDNN's algorithms may use. On tensor cores they hold transposed copies: one of
// the image, one of the grid and two of the weights. Images and grids that have channels last are
// copied only if their channels do not come in eights. Other algorithms may use as much as the
// larger of image and grid; more would reduce the micro-batch that fits into memory.
inline int64_t algorithm_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  if (!uses_tensor_cores(dtype)) return std::max(image_bytes(g, N, dtype), grid_bytes(g, N, dtype));
  const ConvGeometry padded = in_eights(g);
  const bool copies_image = !g.has_channels_last() || padded.C != g.C,
             copies_grid = !g.has_channels_last() || padded.O != g.O;
  return (copies_image ? image_bytes(padded, N, dtype) : 0) +
         (copies_grid ? grid_bytes(padded, N, dtype) : 0) + 2 * weights_bytes(padded, dtype);
}

// True if cuDNN gets the weights as [O, KH, KW, C], which it wants where channels are last. Then
// they are copied, unless that is the order in which they lie.
inline bool transposes_weights(const ConvGeometry& g) {
  return g.has_channels_last() && g.area() > 1;
}

// The bytes of the partial sums of a weight gradient on tensor cores. A gradient has too few tiles
// of 128 x 128 sums to occupy a large GPU's 132 multiprocessors twice each, so the sum over images
// and pixels is split among blocks, each with a part in float32. There are at least two parts,
// whatever the size: the gradient in its own layout, and the sums that are added to it.
inline int64_t split_sum_bytes(const ConvGeometry& g) {
  constexpr int64_t blocks = 2 * 132, tile = 128 * 128;
  const ConvGeometry padded = in_eights(g);
  const int64_t sums = padded.O * padded.taps();
  return whole_parts(std::max(2 * sums, blocks * std::min(sums, tile)) * int64_t(sizeof(float)));
}

// The bytes that an algorithm for a weight gradient may use beyond algorithm_bytes(). In float32
// cuDNN's fast ones copy both the image and the grid. With less room the images are computed in
// parts, each of which adds to all weights.
inline int64_t more_for_weights(const ConvGeometry& g, int64_t N, DType dtype) {
  if (uses_tensor_cores(dtype)) return split_sum_bytes(g);
  if (dtype != DType::f32) return 0;
  return std::min(image_bytes(g, N, dtype), grid_bytes(g, N, dtype));
}

// The bytes of a convolution's workspace: the padded image, if there is one; a copy of w if its
// filters lie apart, because cuDNN expects them side by side, or in another order; and the
// algorithm's memory with `more` bytes. This is at least enough for a single image with copies of
// all operands, because operands that do not start at a multiple of 16 bytes are copied. Throws
// Error if an image is too large for cuDNN.
inline int64_t workspace_bytes(const ConvGeometry& g, int64_t N, DType dtype, int64_t more = 0) {
  constexpr int64_t least = 4 << 20, modest = 1 << 20;
  const ConvGeometry symmetric = as_symmetric(g), padded = as_padded(g);
  const int64_t largest =
      std::max({symmetric.C * symmetric.H * symmetric.W, g.O * g.GH * g.GW, g.O * g.taps()});
  check(largest < too_many_elements,
        "a convolution of images [{}, {}, {}] to [{}, {}, {}] by weights [{}, {}, {}, {}] on cuda: "
        "cuDNN's tensors have fewer than 2^31 elements, and one of these has {} for a single "
        "image. Use smaller images or fewer channels",
        g.C, g.H, g.W, g.O, g.GH, g.GW, g.O, g.group_channels(), g.KH, g.KW, largest);
  const int64_t copies = std::max(image_bytes(g, 1, dtype), image_bytes(padded, 1, dtype)) +
                         grid_bytes(g, 1, dtype) + weights_bytes(g, dtype);
  const int64_t of_one =
      uses_tensor_cores(dtype)
          ? std::max(algorithm_bytes(g, 1, dtype), algorithm_bytes(padded, 1, dtype)) + more
          : modest;
  return (symmetric == g ? 0 : image_bytes(symmetric, N, dtype)) +
         (g.has_part_of_w() || transposes_weights(g) ? weights_bytes(g, dtype) : 0) +
         std::max({least, algorithm_bytes(symmetric, N, dtype) + more, copies + of_one});
}

// The bytes for a weight gradient. In 16 bits the gradient lies in the workspace before it is
// widened into a sum over micro-batches.
inline int64_t correlate_workspace_bytes(const ConvGeometry& g, int64_t N, DType dtype) {
  return workspace_bytes(g, N, dtype, more_for_weights(as_symmetric(g), N, dtype)) +
         (is_16_bit_dtype(dtype) && !transposes_weights(g) ? weights_bytes(g, dtype) : 0);
}

}  // namespace accrue::cuda
