#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Ops that move elements and compute nothing. x may have any rank and may also be i32 or u8, which
// have no gradient. A negative dimension counts from the end. Where every element stays where it
// is, the result is x itself under the new shape, without a copy. They keep nothing, and unless it
// says otherwise, dx[i] is the element of dy that x[i] went to.
// They throw Error for other dtypes, for dimensions that x does not have and, but for roll(), for
// those that are named twice.

// y's dimension d is x's dimension dims[d]. Throws Error unless dims names each dimension once.
Tensor permute(const Tensor& x, const std::vector<int>& dims);
// x with dimensions a and b exchanged.
Tensor transpose(const Tensor& x, int a, int b);

// Elements begin, begin + step, ... of a dimension, up to `end` and without it, as in Python's
// x[begin:end:step]: a negative place counts from the end, and one beyond the dimension means its
// end. With a negative step the first element comes last if `end` is less than -n.
// Backward: dx is dy there, and 0 elsewhere where it is written.
// Throws Error if step is 0.
Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end, int64_t step = 1);
// Slices of these sizes, one after the other. Throws Error unless they add up to the dimension.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int dim);
// The tensors one after the other along a new dimension `dim`. Throws Error as concat() does.
Tensor stack(const std::vector<Tensor>& tensors, int dim);

// y[.., i, ..] = x[.., i - shift modulo n, ..], with a shift for each of `dims`.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& dims);
// y[.., i, ..] = x[.., n - 1 - i, ..] in each of `dims`.
Tensor flip(const Tensor& x, const std::vector<int>& dims);

// Repeats x along its dimensions of size 1, up to `shape`, which may have more dimensions in front.
// Backward: dx[i] is the sum of dy over all copies of x[i], in the order in which they lie there.
// Throws Error unless the sizes of all other dimensions agree.
Tensor expand(const Tensor& x, const Shape& shape);
// x repeats[d] times along dimension d. If there are more repeats than dimensions, x has more in
// front, of size 1; if there are fewer, they are for the last dimensions.
// Backward: a sum as expand()'s.
Tensor tile(const Tensor& x, const std::vector<int64_t>& repeats);

// x without all dimensions of size 1, or without `dim` if that has size 1.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, int dim);
// x with a dimension of size 1 more, which is y's dimension `dim`.
Tensor unsqueeze(const Tensor& x, int dim);
// x with dimensions first to last as one; of rank 0, x as one element.
Tensor flatten(const Tensor& x, int first = 0, int last = -1);

namespace detail {

// Images [N, C, H, W] as [N, H, W, C], and the other way.
Tensor channels_last(const Tensor& x);
Tensor channels_first(const Tensor& x);

// `dim` counted from the start. Throws Error unless -rank <= dim < rank.
int dimension_of(std::string_view op, const Tensor& x, int dim);
// Throws Error unless x is of a dtype whose elements these ops move.
void check_movable(std::string_view op, const Tensor& x);

}  // namespace detail

}  // namespace accrue
