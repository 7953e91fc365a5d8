#pragma once

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// The columns from `begin` on of a matrix whose rows are `stride` elements apart.
struct Columns {
  int64_t begin, stride;
};

// to[r, to_columns.begin + c] = from[r, from_columns.begin + c] + beta * (its old value), for
// `width` columns of `rows` rows. concat() uses it. Not differentiable.
void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width);

}  // namespace accrue
