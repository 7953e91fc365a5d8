#pragma once

#include "core/inside.h"
#include "core/rule.h"

namespace accrue {

// A matrix of which only the columns from `begin` on are meant.
struct Columns {
  int64_t begin, stride;
};

// to[r, to_columns.begin + c] = from[r, from_columns.begin + c] + beta * itself, for `width`
// columns of `rows` rows. concat() is made of it. Not differentiable.
void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width);

}  // namespace accrue
