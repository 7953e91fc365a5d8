#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace accrue {

// Returns the upper of the two middle values if the number of values is even. Needs at least one
// value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace accrue
