#pragma once

#include <span>
#include <vector>

namespace accrue {

// The finite values of an array, counted in TensorBoard's buckets. Their limits are 0 and +-1e-12 *
// 1.1^k up to 1e20 (tensorflow/core/lib/histogram). Bucket i counts the values v with limit[i - 1]
// <= v < limit[i]. A run of empty buckets is stored as one.
struct Histogram {
  struct Bucket {
    double limit, count;
  };
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<Bucket> buckets;
};

// The histogram of scale * values[i].
Histogram histogram_of(std::span<const float> values, double scale);

}  // namespace accrue
