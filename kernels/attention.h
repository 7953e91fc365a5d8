#pragma once

#include <optional>

#include "core/tensor.h"
#include "kernels/causal_attention.h"
#include "kernels/softmax.h"

namespace accrue {

// The keys that a query of attention() sees, and the scale of its scores.
struct AttentionOptions {
  AttentionMask mask = AttentionMask::none;
  // i32 [N]: of sample n only the first lengths[n] keys are seen. All are, if it is undefined.
  Tensor lengths = {};
  // The factor of the scores; 1 / sqrt(D) if there is no value.
  std::optional<double> scale = {};
  // [N, S] in the type of q: of sample n only keys s with key_mask[n, s] other than 0 are seen. All
  // are, if it is undefined. It gets no gradient.
  Tensor key_mask = {};
};

// y[n, h, t, e] = sum_s p[n, h, t, s] * v[n, g, s, e], with the group g = h / (H / G) of head h.
// p[n, h, t, s] = softmax_s(scale * sum_d q[n, h, t, d] * k[n, g, s, d]) over the keys s that query
// t sees.
// q [N, H, T, D], k [N, G, S, D], v [N, G, S, E], y [N, H, T, E], H a multiple of G.
// With AttentionMask::causal query t sees key s if s <= t, and T is S. y is 0 for a query that sees
// no key, because of a key_mask.
// This is matmul(softmax(scale * matmul(q, k^T)), v), which another mask can be added to.
// Backward is causal_attention()'s, block by block: keeps q, k, v, y and the logarithms of the
// softmax's sums [N, H, T], and nothing of T * S elements. As there, NaN and infinity reach only
// what depends on them, so keys behind a length may be NaN. But with a scale that is not positive,
// the three ops compute it, keep p, and multiply what is not seen by 0.
// Throws Error unless the shapes agree and every length is 1 to S, and for a key_mask with a scale
// that is not positive; on cuda, where a kernel cannot throw, a sample of another length gives NaN.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

// The same for heads that lie side by side in rows, as linear layers give them, so that nothing is
// copied. q and y are [N, T, H D], and channel d of head h is column h D + d. k and v are
// [N, S, G D], and channel d of group g is column g D + d. Keeps q, k, v, y and the logarithms.
// Throws Error unless the shapes agree, the scale is positive, and every length is 1 to S.
Tensor attention_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                      const detail::AttentionHeads& heads, const AttentionOptions& options = {});

// The same for qkv [N, T, (H + 2 G) D], whose rows hold q, k and v side by side, as one linear
// layer gives them. Here S = T, and the gradient is one tensor, too.
Tensor attention_rows(const Tensor& qkv, const detail::AttentionHeads& heads,
                      const AttentionOptions& options = {});

}  // namespace accrue
