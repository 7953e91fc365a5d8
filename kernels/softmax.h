#pragma once

#include "core/tensor.h"

namespace accrue {

// y[o, c, i] = exp(x[o, c, i] - L[o, i]), L[o, i] = log sum_c exp(x[o, c, i]): a distribution over
// the entries c of one dimension of x [..., C, ...]. A negative dimension counts from the end.
// Backward: dx[o, c, i] = y[o, c, i] * (dy[o, c, i] - sum_k dy[o, k, i] * y[o, k, i]).
// Keeps y. Writes y over x when handed its last reference, and dx over dy where it can. Entries of
// -infinity alone give NaN, as do NaN and infinity. Throws Error unless the dimension exists.
Tensor softmax(Tensor x, int dim);

// y[o, c, i] = x[o, c, i] - L[o, i].
// Backward: dx[o, c, i] = dy[o, c, i] - exp(y[o, c, i]) * sum_k dy[o, k, i].
// Keeps y, and is written over as softmax() is.
Tensor log_softmax(Tensor x, int dim);

// Which keys a query sees: all, or only as far as its own place.
enum class AttentionMask { none, causal };

namespace detail {

// softmax(scale * x) along the last dimension of x [N, ..., T, S], where row t sees only the first
// entries, and y is 0 for the others. It sees lengths[n], i32 [N], if that is defined, and at most
// t + 1 with AttentionMask::causal. Backward and the rest are as in softmax(). Throws Error unless
// the lengths fit and are 1 to S. On cuda, where a kernel cannot throw, the rows of another one are
// NaN.
Tensor softmax_of_scores(Tensor x, double scale, const Tensor& lengths, AttentionMask mask);

}  // namespace detail

}  // namespace accrue
