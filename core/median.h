#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace accrue {

// The upper one of the two middle values where their number is even. Needs at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace accrue
