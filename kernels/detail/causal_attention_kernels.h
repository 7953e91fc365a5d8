#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/causal_attention.h"

namespace accrue {

// How a product of weights and rows treats rows that hold NaN or infinity. They must not reach sums
// that do not see them, but 0 * NaN is NaN. `isolated` makes the sums that see such a row NaN, and
// leaves it out of all others.
enum class NotFinite { multiplied, isolated };

// The rows of heads, T of each, and the elements from one row, head and sample to the next.
template <class T>
struct Heads {
  T* data;
  int64_t rows, stride, of_head, of_sample;

  // The channels of head h in row t of sample n.
  HOST_DEVICE T* at(int64_t n, int64_t t, int64_t h) const {
    return data + n * of_sample + t * stride + h * of_head;
  }
};

// Heads that lie side by side in the rows of a tensor [N, T, columns], from some column on; or one
// after another, [N, heads, T, D].
struct HeadColumns {
  View rows;
  int64_t first = 0;

  bool has_heads() const { return rows.shape.rank() == 4; }
  template <class T>
  Heads<T> of(int64_t size) const {
    const Shape& x = rows.shape;
    if (has_heads()) return {rows.as<T>(), x[2], x[3], x[2] * x[3], x[1] * x[2] * x[3]};
    return {rows.as<T>() + first, x[1], x[2], size, x[1] * x[2]};
  }
};

// The operands of causal_attention(), or of attention(), whose queries see the keys that `mask`,
// `lengths` and `key_mask` say.
struct CausalInputs {
  HeadColumns q, k, v;
  View positions;  // has no data if each row is one document
  AttentionHeads heads;
  View lengths = {};  // has no data if all keys of a sample are seen
  AttentionMask mask = AttentionMask::causal;
  std::optional<double> scale = {};
  View key_mask = {};  // has no data if no key is hidden
};

// `first` is the column of the target's rows at which the heads begin.
struct HeadTarget {
  std::optional<GradTarget> target;
  int64_t first = 0;

  explicit operator bool() const { return target.has_value(); }
  // Has no data if there is no target.
  HeadColumns columns() const { return target ? HeadColumns{target->grad, first} : HeadColumns{}; }
  template <class T>
  Heads<T> of(int64_t size) const {
    return columns().of<T>(size);
  }
};

struct CausalTargets {
  HeadTarget dq, dk, dv;
};

struct CausalSizes {
  int64_t N, H, G, D, E, Tq, T;
  bool is_causal;
  double factor;

  explicit CausalSizes(const CausalInputs& x)
      : N(x.q.rows.shape[0]),
        H(x.heads.queries),
        G(x.heads.groups),
        D(x.heads.size),
        E(x.v.has_heads() ? x.v.rows.shape[3] : D),
        Tq(x.q.rows.shape[x.q.has_heads() ? 2 : 1]),
        T(x.k.rows.shape[x.k.has_heads() ? 2 : 1]),
        is_causal(x.mask == AttentionMask::causal),
        factor(x.scale.value_or(1 / std::sqrt(static_cast<double>(D)))) {}
  HOST_DEVICE int64_t heads_of_group() const { return H / G; }
  // The token of query i, where attention is causal.
  HOST_DEVICE int64_t token(int64_t i) const { return T - Tq + i; }
  // The number of pairs of a query and a key that it sees, if rows are single documents.
  double pairs() const {
    const double keys = is_causal ? double(T - Tq) + double(Tq + 1) / 2 : double(T);
    return double(N) * double(H) * double(Tq) * keys;
  }
  // The elements of t [N, H, Tq] in cuda's scratch, rounded up so that vectors may follow.
  int64_t output_products() const { return round_up<int64_t>(N * H * Tq, 4); }
  // The number of elements of q, k and v.
  double elements() const { return double(N) * double(D * (Tq * H + T * G) + E * T * G); }
  // The factor of the scores.
  double scale() const { return factor; }
};

// True if the shapes suit tensor cores on cuda: heads of 16-bit elements with up to 128 channels, a
// multiple of 8.
inline bool suits_tensor_cores(const CausalSizes& s, DType dtype) {
  return is_16_bit_dtype(dtype) && s.D == s.E && s.D <= 128 && s.D % 8 == 0;
}

// The parts into which the query heads of a group are cut for dk and dv on tensor cores, where one
// block for every 64 keys of a group would leave multiprocessors without a block. Each part has a
// block of its own for such keys, and the last of these blocks adds the parts' sums in order.
// Shapes alone decide the number of parts, so every device gives the same bits.
struct HeadParts {
  static constexpr int64_t key_rows = 64;
  // The sums of a block: dk and dv of up to 64 channels, or one of them of up to 128.
  static constexpr int64_t block_sums = key_rows * 128;

  int64_t blocks;  // of one part
  int64_t count = 1;

  HeadParts(const CausalSizes& s, DType dtype) : blocks(s.N * s.G * ceil_div(s.T, key_rows)) {
    // An H200 has 132 multiprocessors, which hold two such blocks each. With twice as many blocks
    // it matters less that blocks of first keys take longest.
    constexpr int64_t multiprocessors = 132, enough = 512;
    if (blocks < multiprocessors && suits_tensor_cores(s, dtype))
      count = std::min(s.heads_of_group(), ceil_div(enough, blocks));
  }

  // The floats of the parts' sums: none if there is only one part.
  int64_t floats() const { return count > 1 ? blocks * count * block_sums : 0; }
};

// Throws Error unless there are some heads, as many in every group.
void check_heads(std::string_view op, const AttentionHeads& heads);
// Throws Error unless qkv holds these heads' q, k and v side by side, and is not empty.
void check_packed_heads(std::string_view op, const Tensor& qkv, const AttentionHeads& heads);

// attention() or attention_rows(), of operands that fit, with a positive scale: y [N, H, T, E] of
// heads, [N, T, H D] of rows. Keeps the operands, y and the logarithms of sums.
Tensor attention_in_blocks(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionHeads& heads, const AttentionOptions& options);
Tensor attention_in_blocks(const Tensor& qkv, const AttentionHeads& heads,
                           const AttentionOptions& options);

}  // namespace accrue
