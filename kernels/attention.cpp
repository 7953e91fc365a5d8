#include "kernels/attention.h"

#include <cmath>
#include <string_view>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/batched_matmul.h"
#include "kernels/detail/causal_attention_kernels.h"

namespace accrue {
namespace {

void check_lengths_of(std::string_view op, const Tensor& lengths, int64_t N, Device device) {
  check(!lengths.defined() || (lengths.dtype() == DType::i32 && lengths.shape() == Shape{N} &&
                               lengths.device() == device),
        "[{}] lengths {} {}: expected i32 [{}] on {}, one for each sample", op,
        name(lengths.dtype()), lengths.shape(), N, name(device));
}

void check_key_mask(std::string_view op, const Tensor& mask, const Tensor& q, int64_t S) {
  const Shape wanted{q.size(0), S};
  check(!mask.defined() ||
            (mask.dtype() == q.dtype() && mask.shape() == wanted && mask.device() == q.device()),
        "[{}] key_mask {} {}: expected {} {} on {}, a number for each key of a sample", op,
        name(mask.dtype()), mask.shape(), name(q.dtype()), wanted, name(q.device()));
}

void check_keys(std::string_view op, AttentionMask mask, int64_t T, int64_t S) {
  check(mask == AttentionMask::none || T == S,
        "[{}] {} queries and {} keys: expected as many where a query sees the keys up to its own",
        op, T, S);
}

// The options with their scale, for operands of N samples with T queries and S keys.
AttentionOptions checked_for_rows(AttentionOptions options, const Tensor& q, int64_t S,
                                  const AttentionHeads& heads) {
  options.scale = options.scale.value_or(1 / std::sqrt(double(heads.size)));
  check(*options.scale > 0,
        "[attention_rows] the scale {}: expected a positive one, or attention() of heads",
        *options.scale);
  check_keys("attention_rows", options.mask, q.size(1), S);
  check_lengths_of("attention_rows", options.lengths, q.size(0), q.device());
  check_key_mask("attention_rows", options.key_mask, q, S);
  return options;
}

}  // namespace

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
  check_keys("attention", options.mask, T, S);
  const Tensor& lengths = options.lengths;
  check_lengths_of("attention", lengths, N, q.device());
  check_key_mask("attention", options.key_mask, q, S);
  const double scale = options.scale.value_or(1 / std::sqrt(double(D)));
  if (scale > 0)
    return attention_in_blocks(q, k, v, {H, G, D},
                               {options.mask, lengths, scale, options.key_mask});
  check(!options.key_mask.defined(),
        "[attention] key_mask beside the scale {}: expected a positive scale, or no key_mask",
        scale);
  // The blocks look for the largest score before they scale it.
  // The heads of a group have their queries one below the other.
  const Shape rows_of_groups{N, G, H / G * T, D};
  Tensor p =
      matmul(q.reshape(rows_of_groups), k, Transpose::no, Transpose::yes).reshape({N, H, T, S});
  p = softmax_of_scores(std::move(p), scale, lengths, options.mask);
  return matmul(p.reshape({N, G, H / G * T, S}), v).reshape({N, H, T, v.size(3)});
}

Tensor attention_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionHeads& heads, const AttentionOptions& options) {
  check_same("attention_rows", {&q, &k, &v});
  check_heads("attention_rows", heads);
  const int64_t width = heads.queries * heads.size, of_groups = heads.groups * heads.size;
  check(q.shape().rank() == 3 && k.shape().rank() == 3 && q.size(0) == k.size(0) &&
            q.size(2) == width && k.size(2) == of_groups && v.shape() == k.shape() &&
            q.numel() > 0 && k.numel() > 0,
        "[attention_rows] q {}, k {} and v {}: expected q [N, T, {}] and k and v [N, S, {}], none "
        "empty",
        q.shape(), k.shape(), v.shape(), width, of_groups);
  return attention_in_blocks(q, k, v, heads, checked_for_rows(options, q, k.size(1), heads));
}

Tensor attention_rows(const Tensor& qkv, const AttentionHeads& heads,
                      const AttentionOptions& options) {
  check_packed_heads("attention_rows", qkv, heads);
  return attention_in_blocks(qkv, heads, checked_for_rows(options, qkv, qkv.size(1), heads));
}

}  // namespace accrue
