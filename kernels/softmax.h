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

// Which keys a query sees: all, or those up to its own place.
enum class AttentionMask { none, causal };

namespace detail {

// softmax(scale * x) of the last dimension, whose entries row t of x [N, ..., T, S] sees from the
// first on: those before lengths[n], i32 [N], if that is defined, and with AttentionMask::causal no
// more than t + 1. y is 0 for the others. Backward and the rest are those of softmax(). Throws
// Error unless the lengths fit and are 1 to S; on cuda, where a kernel cannot throw, the rows of
// another one are NaN.
Tensor softmax_of_scores(Tensor x, double scale, const Tensor& lengths, AttentionMask mask);

}  // namespace detail

}  // namespace accrue
