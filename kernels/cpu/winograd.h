#pragma once

#include "kernels/cpu/convolution.h"

namespace accrue::cpu {

// The products of convolutions by 3x3 kernels of stride 1, with 16 multiplications instead of 36
// for each 2x2 cells of the target (kernels/cpu/winograd_transforms.h). T is float or double.

// True where these products are faster. For gather and scatter the shape of one image alone
// decides: a sample's bits do not depend on the other samples.
bool winograd_pays(Direction direction, const ConvGeometry& geometry);
bool winograd_correlate_pays(const ConvGeometry& geometry, int64_t N);

// winograd_weights() is the number of elements of w at the 16 points; winograd_pack() writes them.
template <class T>
int64_t winograd_weights(Direction direction, const ConvGeometry& geometry);
template <class T>
void winograd_pack(T* packed, const T* w, Direction direction, const ConvGeometry& geometry);
// True where packing takes a good part of the time of a product of N images.
bool winograd_packing_pays(Direction direction, const ConvGeometry& geometry, int64_t N);

// Bytes of scratch for N images.
template <class T>
int64_t winograd_bytes(Direction direction, const ConvGeometry& geometry, int64_t N);
template <class T>
int64_t winograd_correlate_bytes(const ConvGeometry& geometry, int64_t N);

// conv_gather, conv_scatter and conv_correlate of kernels/detail/conv_products.h.
template <class T>
void winograd_multiply(const ConvProduct& product);
template <class T>
void winograd_correlate(GradTarget w, View grid, View image, const ConvGeometry& geometry,
                        View workspace);

}  // namespace accrue::cpu
