#include "tables/standardize.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace accrue {

void detail::measure(Column& column, const std::vector<double>& values,
                     std::span<const int64_t> rows) {
  const auto value = [&](int64_t n) { return values[static_cast<size_t>(n)]; };
  const auto [least, most] = std::ranges::minmax(rows | std::views::transform(value));
  column.mean = least;
  column.std = 1;
  if (least == most) return;
  // Where squares would overflow or vanish, numbers are measured in a power of two near the
  // largest.
  constexpr int has_squares = 400;
  int unit = 0;
  std::frexp(std::max(std::abs(least), std::abs(most)), &unit);
  if (std::abs(unit) < has_squares) unit = 0;
  double sum = 0, squares = 0;
  for (const int64_t n : rows) sum += std::ldexp(value(n), -unit);
  const double mean = sum / double(rows.size());
  for (const int64_t n : rows) {
    const double x = std::ldexp(value(n), -unit) - mean;
    squares += x * x;
  }
  const double std = std::ldexp(std::sqrt(squares / double(rows.size())), unit);
  column.mean = std::ldexp(mean, unit);
  if (std > 0) column.std = std;
}

float detail::standardized(double x, const Column& column, const RawTable& table, size_t row) {
  const auto y = static_cast<float>((x - column.mean) / column.std);
  check(std::isfinite(y),
        "{} is {}, too far from the mean {} and deviation {} of the rows trained on: float32 "
        "cannot hold that",
        table.place(table.lines[row], column.name), x, column.mean, column.std);
  return y;
}

}  // namespace accrue
