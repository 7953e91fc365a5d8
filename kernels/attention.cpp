#include "kernels/attention.h"

#include <cmath>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/batched_matmul.h"
#include "kernels/detail/causal_attention_kernels.h"

namespace accrue {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  check_same("attention", {&q, &k, &v});
  const bool have_rank = q.shape().rank() == 4 && k.shape().rank() == 4 && v.shape().rank() == 4;
  check(have_rank && k.size(0) == q.size(0) && k.size(3) == q.size(3) && q.numel() > 0 &&
            k.numel() > 0 && v.numel() > 0 && v.shape() == k.shape().with(3, v.size(3)) &&
            q.size(1) % k.size(1) == 0,
        "[attention] q {}, k {} and v {}: expected q [N, H, T, D], k [N, G, S, D] and v [N, G, S, "
        "E] with H a multiple of G, none empty",
        q.shape(), k.shape(), v.shape());
  const int64_t N = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), G = k.size(1),
                S = k.size(2);
  check(options.mask == AttentionMask::none || T == S,
        "[attention] {} queries and {} keys: expected as many where a query sees the keys up to "
        "its own",
        T, S);
  const Tensor& lengths = options.lengths;
  check(!lengths.defined() || (lengths.dtype() == DType::i32 && lengths.shape() == Shape{N} &&
                               lengths.device() == q.device()),
        "[attention] lengths {} {}: expected i32 [{}] on {}, one for each sample",
        name(lengths.dtype()), lengths.shape(), N, name(q.device()));
  const double scale = options.scale.value_or(1 / std::sqrt(double(D)));
  if (scale > 0) return attention_in_blocks(q, k, v, lengths, options.mask, scale);
  // The blocks look for the largest score before they scale it.
  // The heads of a group have their queries one below the other.
  const Shape rows_of_groups{N, G, H / G * T, D};
  Tensor p =
      matmul(q.reshape(rows_of_groups), k, Transpose::no, Transpose::yes).reshape({N, H, T, S});
  p = softmax_of_scores(std::move(p), scale, lengths, options.mask);
  return matmul(p.reshape({N, G, H / G * T, S}), v).reshape({N, H, T, v.size(3)});
}

}  // namespace accrue
