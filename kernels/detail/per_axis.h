#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <string>

namespace accrue::detail {

// A number for rows and one for columns, such as a stride. One number stands for both.
struct PerAxis {
  int64_t h, w;
  constexpr PerAxis(int64_t both = 0) : PerAxis(both, both) {}
  constexpr PerAxis(int64_t h, int64_t w) : h(h), w(w) {}
  constexpr bool is_even() const { return h == w; }
  auto operator<=>(const PerAxis&) const = default;
};

constexpr bool is_at_least(PerAxis a, int64_t least) { return a.h >= least && a.w >= least; }

// "2", or "2x1" where the two differ.
inline std::string to_string(PerAxis a) {
  return a.is_even() ? std::to_string(a.h) : fmt::format("{}x{}", a.h, a.w);
}

}  // namespace accrue::detail

template <>
struct fmt::formatter<accrue::detail::PerAxis> : fmt::formatter<std::string> {
  template <class Context>
  auto format(accrue::detail::PerAxis a, Context& context) const {
    return fmt::formatter<std::string>::format(accrue::detail::to_string(a), context);
  }
};
