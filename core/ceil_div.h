#pragma once

#include <concepts>

namespace accrue::detail {

// a / b rounded up, for a >= 0 and b > 0.
template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <std::integral T>
constexpr T round_up(T a, T step) {
  return ceil_div(a, step) * step;
}

}  // namespace accrue::detail
