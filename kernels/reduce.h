#pragma once

#include <vector>

#include "core/tensor.h"

namespace accrue {

// Whether the result of a reduction has its reduced dimensions, with size 1, or does without them.
enum class KeepDims { no, yes };

// All of the following take the dimensions to reduce, where a negative one counts from the end and
// none means all, and x of any floating dtype, which y has, too. y[o] is made of x[o, t], where o
// are the places in the dimensions that stay, and t = 0, ..., R - 1 those in the reduced ones, row
// by row. Sums add up runs of terms in float (or double): of at most 256 terms, or of 1024 in 32
// lanes. They add the runs in double, and few long sums in pieces that follow from the shape, so
// that threads change no bits. All throw Error unless each dimension exists and is named once.

// y[o] = sum_t x[o, t], 0 where R is 0. Backward: dx[o, t] = dy[o]. Keeps nothing.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::no);

// y[o] = sum_t x[o, t] / R, NaN where R is 0. Backward: dx[o, t] = dy[o] / R. Keeps nothing.
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::no);

// y[o] = sum_t (x[o, t] - m[o])^2 / max(R - correction, 0), m the mean: the variance of a sample
// with correction 1, of a population with 0. Where R is not larger than the correction, y is NaN
// (0 / 0).
// Backward: dx[o, t] = dy[o] * 2 (x[o, t] - m[o]) / (R - correction). Keeps x, and m in float
// beside 16 bits. Throws Error also if the correction is negative.
Tensor var(const Tensor& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::no,
           double correction = 1);

// y[o] = max_t x[o, t], or the smallest. A NaN wins.
// Backward: dx[o, t] = dy[o] at the first t with x[o, t] = y[o], or the first NaN, and 0 elsewhere,
// as PyTorch's max(dim) does: its amax() shares dy among equal elements. Keeps t in i32.
// Throws Error also if R is 0 or above 2^31 - 1.
Tensor amax(const Tensor& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::no);
Tensor amin(const Tensor& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::no);

// The first t, i32, for which amax(), or amin(), has its y. It has no gradient, and throws as they
// do.
Tensor argmax(const Tensor& x, int dim, KeepDims keep = KeepDims::no);
Tensor argmin(const Tensor& x, int dim, KeepDims keep = KeepDims::no);

// y[o, t] = sum_{s <= t} x[o, s] along one dimension, added up in double.
// Backward: dx[o, t] = sum_{s >= t} dy[o, s]. Keeps nothing. Throws Error unless the dimension
// exists.
Tensor cumsum(const Tensor& x, int dim);

}  // namespace accrue
