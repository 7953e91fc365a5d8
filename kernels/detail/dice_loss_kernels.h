#pragma once

#include <cstdint>

#include "kernels/detail/class_weights.h"
#include "kernels/detail/counted.h"

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

// How much of sample n is judged, by the sums of its K planes: each judged pixel is in one of them.
HOST_DEVICE inline double judged_part(const double* sums, int64_t n, int64_t K, int64_t pixels,
                                      const Counted& counted) {
  if (!counted.may_leave_out()) return 1;
  double judged = 0;
  for (int64_t k = 0; k < K; ++k) judged += dice_sums(sums, n * K + k).wanted;
  return judged / double(pixels);
}

// x / (samples K), 0 where nothing is judged.
HOST_DEVICE inline double mean_of_planes(double x, int64_t K, const Counted& counted) {
  const double planes = counted.samples() * double(K);
  return planes > 0 ? x / planes : 0;
}

}  // namespace accrue
