#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "tables/domain_table.h"

namespace accrue::detail {

// Adds the columns that a network is to see, with their classes, or the moments of these rows.
void choose_features(const RawTable& table, const TableOptions& o, TableColumns& columns,
                     std::span<const int64_t> trained_on);
// [rows.size(), F]
Tensor features_of(const RawTable& table, const TableColumns& columns,
                   std::span<const int64_t> rows);

}  // namespace accrue::detail
