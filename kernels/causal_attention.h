#pragma once

#include "core/tensor.h"

namespace accrue {

// H heads of queries, and G groups that have keys and values, with D channels each. H is a multiple
// of G: query head h belongs to group h / (H / G).
struct AttentionHeads {
  int64_t queries, groups, size;
};

// y[n, i, h, d] = sum_j a[n, h, i, j] * v[n, j, g(h), d], a[n, h, i, j] = exp(s[n, h, i, j] - L[n,
// h, i]) s[n, h, i, j] = sum_d q[n, i, h, d] * k[n, j, g(h), d] / sqrt(D), L[n, h, i] = log sum_j
// exp(s[n, h, i, j]) with q and y [N, Tq, H D], k and v [N, T, G D], Tq <= T, g(h) = h / (H / G)
// (Ainslie et al., "GQA", 2023). The queries are the last of the T tokens: query i is token p = T -
// Tq + i and sees the tokens j with p - positions[n, i] <= j <= p. positions i32 [N, Tq] are the
// places of tokens in their documents, of which several may follow one another in a row: none sees
// another. Without positions a row is one document, and query i sees all j <= p. Backward, with
// t[n, h, i] = sum_d dy[n, i, h, d] * y[n, i, h, d] and sums over the pairs (i, j) that see each
// other:
//   dv[n, j, g, d] = sum_(h of g, i) a[n, h, i, j] * dy[n, i, h, d]
//   ds[n, h, i, j] = a[n, h, i, j] * (sum_d dy[n, i, h, d] * v[n, j, g(h), d] - t[n, h, i]) /
//   sqrt(D) dk[n, j, g, d] = sum_(h of g, i) ds[n, h, i, j] * q[n, i, h, d] dq[n, i, h, d] = sum_j
//   ds[n, h, i, j] * k[n, j, g(h), d]
// Keeps q, k, v, y, the positions and L [N, H, Tq], but nothing of Tq * T elements: backward
// recomputes a, block by block (Dao et al., "FlashAttention", 2022). Blocks in which nobody sees
// anybody are skipped.
// Scratch on the cpu, in the type of the sums: a block of at most 96 queries and 96 keys for each
// thread that may take part, at most 16, and in backward dk and dv of a group. On cuda it is
// t [N, H, Tq] in backward.
// q, k and v may be one tensor. Throws Error unless the shapes and dtypes agree and every position
// is in [0, p]; on CUDA, where a kernel cannot throw, the query of a wrong one gives NaN.
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionHeads& heads, const Tensor& positions = {});

// The same of qkv [N, T, (H + 2 G) D], whose rows hold q, k and v side by side, as one linear layer
// gives them. So Tq = T, and the gradient is one tensor, too.
Tensor causal_attention(const Tensor& qkv, const AttentionHeads& heads,
                        const Tensor& positions = {});

}  // namespace accrue
