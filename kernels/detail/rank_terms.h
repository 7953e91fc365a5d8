#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

// The formulas of kernels/step/combine_ranks.h: what the ranks before r have come to, with the r-th
// one's value. `first` is rank 0's.
namespace accrue {

struct SumOfRanks {
  HOST_DEVICE double operator()(double so_far, double /*first*/, int64_t /*r*/, double x) const {
    return so_far + x;
  }
};

struct MeanOfRanks {
  const double* weights;
  HOST_DEVICE double operator()(double so_far, double first, int64_t r, double x) const {
    return weights[r] > 0 ? std::fma(weights[r], x - first, so_far) : so_far;
  }
};

}  // namespace accrue
