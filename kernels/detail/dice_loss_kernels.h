#pragma once

#include <cstdint>

#include "kernels/detail/class_weights.h"

namespace accrue {

// Pixels of a sample whose products are summed by one thread of the CPU, or by one block of CUDA.
inline constexpr int64_t dice_block = 4096;

// The sums over a sample's plane, from which follow its loss and the slope of that by p, which is
// at_zero + t * by_target.
struct DiceSums {
  double both, found, wanted;  // sum p t, sum p, sum t

  HOST_DEVICE double loss() const { return 1 - (2 * both + 1) / (found + wanted + 1); }
  HOST_DEVICE double at_zero() const {
    const double total = found + wanted + 1;
    return (2 * both + 1) / (total * total);
  }
  HOST_DEVICE double by_target() const { return -2 / (found + wanted + 1); }
};

HOST_DEVICE inline DiceSums dice_sums(const double* sums, int64_t plane) {
  return {sums[3 * plane], sums[3 * plane + 1], sums[3 * plane + 2]};
}

}  // namespace accrue
