#pragma once

#include "tables/columns.h"
#include "train/weighted_objectives.h"

namespace accrue::detail {

// Regression of the targets of a table, f32 [N, K], which are standardized. The score has for each
// of them, in its own units and each sample counted once:
//   rmse = sqrt(mean (a - t)^2)   mae = mean |a - t|   r2 = 1 - sum (a - t)^2 / sum (t - mean t)^2
// named with the column ("rmse.height") if there are several, and then also the mean of r2.
ObjectivePtr table_regression(const Field& targets, const TableColumns& columns,
                              RegressionOptions options);

}  // namespace accrue::detail
