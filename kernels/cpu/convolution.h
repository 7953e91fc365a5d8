#pragma once

#include "kernels/detail/conv_products.h"

namespace accrue::cpu {

// The bytes of scratch that gather or scatter needs for N images, and that correlate needs. Each
// thread needs a zero-padded band of one image or grid, and its result; correlate also needs
// partial weight gradients.
int64_t multiply_bytes(Direction direction, const ConvGeometry& geometry, int64_t N, DType dtype);
int64_t correlate_bytes(const ConvGeometry& geometry, int64_t N, DType dtype);

// A view of x's shape that begins so many elements behind x: one group's part of it.
inline View behind(View x, int64_t elements) {
  x.data = static_cast<std::byte*>(x.data) + elements * int64_t(size_of(x.dtype));
  return x;
}

// conv_gather() or conv_scatter() with all that it is called with.
struct ConvProduct {
  Direction direction;
  const ConvGeometry& geometry;
  GradTarget target;
  View source;
  const ConvWeights& weights;
  View bias;
  Activation activation;
  View workspace;

  int64_t N() const { return source.shape[0]; }
};

}  // namespace accrue::cpu
