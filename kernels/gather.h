#pragma once

#include "core/tensor.h"

namespace accrue {

// Elements of x along a dimension `dim` of V elements, by numbers in [0, V). A negative `dim`
// counts from the end.

// y[.., k, ..] = x[.., index[k], ..], index [K] i32: y has x's shape with K in place of V.
// Backward: dx[.., v, ..] = sum_{k: index[k] = v} dy[.., k, ..], in the order of k; 0 where no
// index names v, unless it is added to. Keeps the index. Throws Error unless x has that dimension,
// the index fits and all of it is in range; on CUDA, where a kernel cannot throw, an index out of
// range gives NaN and its dy goes nowhere.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);

// y[.., k, ..] = x[.., index[.., k, ..], ..]: y has the shape of the i32 index, which has x's rank,
// and in dimensions other than `dim` at most x's sizes. Backward and Errors as in index_select().
// The picks of a lane, which is all of the dimension at one place of the others, are added one
// after the other; 16-bit sums are kept in float32 beside dx on the CPU.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

}  // namespace accrue
