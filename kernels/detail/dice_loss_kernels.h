#pragma once

#include <cstdint>

#include "kernels/detail/class_weights.h"
#include "kernels/detail/counted.h"

namespace accrue {

// Pixels of a sample whose products one thread of the CPU, or one block of CUDA, adds up.
inline constexpr int64_t dice_block = 4096;

// The sums over a sample's plane. They give its loss, and the slope of the loss by p, which is
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

// The judged part of sample n, from the sums of its K planes. Each judged pixel is in one plane.
HOST_DEVICE inline double judged_part(const double* sums, int64_t n, int64_t K, int64_t pixels,
                                      const Counted& counted) {
  if (!counted.may_leave_out()) return 1;
  double judged = 0;
  for (int64_t k = 0; k < K; ++k) judged += dice_sums(sums, n * K + k).wanted;
  return judged / double(pixels);
}

// x / (samples K), or 0 if nothing is judged.
HOST_DEVICE inline double mean_of_planes(double x, int64_t K, const Counted& counted) {
  const double planes = counted.samples() * double(K);
  return planes > 0 ? x / planes : 0;
}

}  // namespace accrue
