#pragma once

#include <memory>

#include "core/rule.h"
#include "core/tensor.h"

namespace accrue {

namespace detail {

// H heads of queries, and G groups that have keys and values, with D channels each. H is a multiple
// of G: query head h belongs to group h / (H / G).
struct AttentionHeads {
  int64_t queries, groups, size;
};

}  // namespace detail

// Attention in which each query sees its own token and tokens before it. In each row n, for query
// head h of group g = h / (H / G):
//    y[i, h, d] = sum_j a[h, i, j] * v[j, g, d]       a[h, i, j] = exp(s[h, i, j] - L[h, i])
//    s[h, i, j] = sum_d q[i, h, d] * k[j, g, d] / sqrt(D)   L[h, i] = log sum_j exp(s[h, i, j])
// q and y are [N, Tq, H D], k and v [N, T, G D], with Tq <= T (groups: Ainslie et al., "GQA",
// 2023). The queries are the last Tq of the T tokens: query i is token p = T - Tq + i. It sees the
// tokens j with p - positions[i] <= j <= p. positions i32 [N, Tq] gives the place of each query's
// token in its document. Several documents may follow one another in a row, and no token sees
// another document. Without positions a row is one document, and query i sees all j <= p.
// Backward, with t[h, i] = sum_d dy[i, h, d] * y[i, h, d]:
//    dv[j, g, d] = sum_(h, i) a[h, i, j] * dy[i, h, d]         over the heads of group g
//    ds[h, i, j] = a[h, i, j] * (sum_d dy[i, h, d] * v[j, g, d] - t[h, i]) / sqrt(D)
//    dk[j, g, d] = sum_(h, i) ds[h, i, j] * q[i, h, d]         over the heads of group g
//    dq[i, h, d] = sum_j ds[h, i, j] * k[j, g, d]
// Keeps q, k, v, y, the positions and L [N, H, Tq], but nothing with Tq * T elements: backward
// recomputes a, block by block (Dao et al., "FlashAttention", 2022). Blocks in which no query sees
// a key are skipped.
// NaN and infinity reach only results that depend on them by these formulas, and may make them NaN.
// All others keep their bits, so no document changes another.
// Scratch on the cpu is in the type of the sums. Each of up to 16 threads has a block of at most 96
// queries and 96 keys, and in backward also dk and dv of a group. Where there are few groups, each
// of up to 22 parts of the work has such dk and dv instead. On cuda there is scratch in backward
// only: t [N, H, Tq], and in 16 bits, where dk and dv would have few blocks, the sums of parts of a
// group's heads (detail/causal_attention_kernels.h, HeadParts), at most 21 MiB.
// q, k and v may be one tensor. Throws Error unless the shapes and dtypes agree and every position
// is in [0, p]. On CUDA, where a kernel cannot throw, a query with a wrong position gives NaN. In
// 16 bits CUDA rounds a and ds, because it multiplies them on tensor cores. It rounds ds to half
// relative to a power of two that fits its row, so that dy may have any scale.
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const detail::AttentionHeads& heads, const Tensor& positions = {});

// The same for qkv [N, T, (H + 2 G) D], whose rows hold q, k and v side by side, as one linear
// layer gives them. Here Tq = T, and the gradient is one tensor, too.
Tensor causal_attention(const Tensor& qkv, const detail::AttentionHeads& heads,
                        const Tensor& positions = {});

namespace detail {

// The keys and values of a row of T tokens, each [1, T, G D], and their gradients. The row's pieces
// fill k and v one after another; the backwards of the pieces add to dk and dv, the last piece
// first.
struct KeysAndValues {
  int64_t tokens;                  // T
  Tensor k{}, v{};                 // undefined before the first piece
  Tensor dk{}, dv{};               // defined between the backwards of the last piece and the first
  int64_t differentiated_from{0};  // the token that the last backward's piece began with
};

// A piece of a row: its tokens from `begin` on. `row` has the keys and values of the tokens before
// it.
struct PieceOfRow {
  std::shared_ptr<KeysAndValues> row;
  int64_t begin;
};

}  // namespace detail

// The same for a piece, the next t tokens of one row (N = 1): q, k and v [1, t, ...] belong to the
// tokens begin, ..., begin + t - 1, which also see the tokens before them. k and v are copied into
// the row.
// Backward adds to the row's dk and dv with beta = 1 (beta = 0 in the last piece). Then it passes
// on this piece's rows of dk and dv. They are complete: of the other pieces, only later ones see
// these keys, and their backwards have already run. The gradients equal those without pieces,
// wherever the row is cut (docs/text.md). Keeps q, y, the positions and L; the row holds k and v.
// The row's gradients exist from the last piece's backward to the first's.
// Also throws Error if the row has fewer tokens, and in backward unless each piece ends where the
// piece of the backward before it began.
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const detail::AttentionHeads& heads, const Tensor& positions,
                        const detail::PieceOfRow& piece);
Tensor causal_attention(const Tensor& qkv, const detail::AttentionHeads& heads,
                        const Tensor& positions, const detail::PieceOfRow& piece);

}  // namespace accrue
