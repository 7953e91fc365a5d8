#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tables/domain_table.h"

namespace accrue::detail {

// The mean and deviation of these rows. A column of one value stays as it is, but for the mean.
void measure(Column& column, const std::vector<double>& values, std::span<const int64_t> rows);
// Throws Error unless float32 can hold the number.
float standardized(double x, const Column& column, const RawTable& table, size_t row);

}  // namespace accrue::detail
