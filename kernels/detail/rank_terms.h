#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

// The formulas of kernels/step/combine_ranks.h. They add the value x of rank r to `so_far`, the
// result for the ranks before r. `first` is rank 0's value.
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
