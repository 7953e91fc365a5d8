#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace accrue {

// True if logit k of the K at x, `stride` elements apart, is the first of the largest ones, and
// none of them is a NaN.
template <class T>
HOST_DEVICE bool is_largest(const T* x, int64_t k, int64_t K, int64_t stride) {
  const T value = x[k * stride];
  for (int64_t c = 0; c < K; ++c) {
    const T other = x[c * stride];
    if (!(c < k ? other < value : other <= value)) return false;
  }
  return true;
}

}  // namespace accrue
