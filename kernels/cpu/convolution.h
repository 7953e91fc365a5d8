#pragma once

#include "kernels/detail/conv_products.h"

namespace accrue::cpu {

// The bytes of scratch that gather or scatter needs for N images, and that correlate needs. Each
// thread needs a zero-padded band of one image or grid, and its result; correlate also needs
// partial weight gradients.
int64_t multiply_bytes(Direction direction, const ConvGeometry& geometry, int64_t N, DType dtype);
int64_t correlate_bytes(const ConvGeometry& geometry, int64_t N, DType dtype);

// The arguments of conv_gather() or conv_scatter().
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
