#pragma once

#include "core/tensor.h"

namespace accrue {

// y[n, c, i] = sum_j a[n, i, j] * v[n, c, j], a[n, i, j] = exp(s[n, i, j] - L[n, i]).
// s[n, i, j] = sum_d q[n, d, i] * k[n, d, j] / sqrt(D), L[n, i] = log sum_j exp(s[n, i, j]).
// q and k are [N, D, ...], v and y [N, C, ...], all with the same P positions i, j in an image. a
// is the softmax of each row of s.
// Backward, with t[n, i] = sum_c dy[n, c, i] * y[n, c, i]:
//   dv[n, c, j] = sum_i a[n, i, j] * dy[n, c, i]
//   ds[n, i, j] = a[n, i, j] * (sum_c dy[n, c, i] * v[n, c, j] - t[n, i]) / sqrt(D).
//   dk[n, d, j] = sum_i ds[n, i, j] * q[n, d, i]      dq[n, d, i] = sum_j ds[n, i, j] * k[n, d, j].
// Keeps q, k, v, y and L [N, P], but nothing of P * P elements: backward recomputes a, block by
// block (Dao et al., "FlashAttention", 2022).
// Scratch grows with P, not with P^2. On cuda it is t [N, P] in backward. On the cpu it holds
// blocks of R = max(16, 2^17 / P) rows of the matrices [P, P], in the type of the sums:
//   forward: about R * (P + D + C) elements.
//   backward: about R * (2 * P + D + 2 * C) + D * P elements, and in 16 bits (D + C) * P more.
// q, k and v may be one tensor. Throws Error unless the shapes and dtypes agree.
Tensor self_attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace accrue
