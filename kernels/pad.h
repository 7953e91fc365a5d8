#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// How many elements come before and after each dimension of x; the last ones, if there are fewer
// pairs than dimensions.
using Pads = std::vector<std::pair<int64_t, int64_t>>;

// The rule by which elements around x are copies of its own: of the nearest one, of their mirror
// images at that one, or of the elements at x's other end. PyTorch says replicate, reflect and
// circular.
enum class Border { edge, reflect, wrap };

// x amid elements that are `value`:
//   y[i_0, i_1, ...] = x[i_0 - before_0, i_1 - before_1, ...], or `value` where x has none
// A negative number removes elements instead. x may be i32 or u8, without a gradient.
// Backward: dx is that part of dy, and 0 where elements are removed. Keeps nothing.
// Throws Error unless x has those dimensions and every size of y is 0 or more.
Tensor pad(const Tensor& x, const Pads& pads, double value = 0);

// x amid copies of its elements: y[i_0, i_1, ...] = x[s_0(i_0), s_1(i_1), ...]. In a dimension of
// size n, s_d is the border's rule.
//   edge:    s(i) = min(max(i - before, 0), n - 1)
//   reflect: s(i) = n - 1 - |n - 1 - |i - before||
//   wrap:    s(i) = i - before modulo n
// Backward: dx[j] is the sum of dy over all i that read x[j], in row-major order of i. Keeps
// nothing. Throws Error unless x has those dimensions, no number is negative, and in each dimension
// x has an element to repeat: reflect needs numbers below n, wrap numbers up to n.
Tensor pad(const Tensor& x, const Pads& pads, Border border);

}  // namespace accrue
