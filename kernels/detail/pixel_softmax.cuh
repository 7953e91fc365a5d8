#pragma once

#include "core/inside.h"
#include "core/launch.cuh"
#include "kernels/detail/cross_entropy_kernels.h"

namespace accrue::cuda {

// A thread takes a pixel. A warp thus reads one class after another, each time in contiguous
// pixels. The second reading of the classes comes from the cache.
template <class T, class W = Wide<T>>
__device__ RowSoftmax<W> pixel_softmax(const T* x, int32_t label, int64_t C, int64_t P) {
  W maximum = widen(x[0]);
  for (int64_t c = 1; c < C; ++c) maximum = x[c * P] > maximum ? widen(x[c * P]) : maximum;
  W rest = 0;
  for (int64_t c = 0; c < C; ++c) rest += RowSoftmax<W>::term(x[c * P], maximum, c == label);
  return {maximum, rest};
}

}  // namespace accrue::cuda
