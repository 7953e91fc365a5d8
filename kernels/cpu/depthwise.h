#pragma once

#include "kernels/cpu/convolution.h"

namespace accrue::cpu {

// The products of convolutions whose filters see one channel each (ConvGeometry::is_depthwise()).
// Such a filter multiplies no matrix: its few weights pass over a plane of pixels, vectors of
// neighbours at a time, several rows of sums in registers (kernels/cpu/depthwise.cpp).

// Bytes of scratch.
int64_t depthwise_bytes(Direction direction, const ConvGeometry& geometry, int64_t N, DType dtype);
int64_t depthwise_correlate_bytes(const ConvGeometry& geometry, int64_t N, DType dtype);

// conv_gather() or conv_scatter(), and conv_correlate(), of kernels/detail/conv_products.h.
void depthwise_multiply(const ConvProduct& product);
void depthwise_correlate(GradTarget w, View grid, View image, const ConvGeometry& geometry,
                         View workspace);

}  // namespace accrue::cpu
