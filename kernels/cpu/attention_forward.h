#pragma once

#include <cmath>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/detail/causal_attention_kernels.h"
#include "kernels/detail/vector_exp.h"

namespace accrue::cpu {

// How the work is cut, and the sizes of a slot of the scratch, in elements.
template <class W>
struct CausalTiling : CausalSizes {
  Partition vectors;  // of queries
  int64_t columns, keys, width, v_width;

  explicit CausalTiling(const CausalSizes& s)
      : CausalSizes(s),
        vectors(ceil_div(s.Tq, lanes<W>), most_vectors),
        columns(vectors.size(0) * lanes<W>),
        keys(std::max(std::min(most_keys, s.T), columns)),
        width(round_up(s.D, lanes<W>)),
        v_width(round_up(s.E, lanes<W>)) {}

  int64_t blocks() const { return N * H * vectors.parts; }

  // Returns as many slots as fit into the size of q, k and v, so that scratch is small beside them.
  int64_t slots(int64_t chunks, int64_t slot_elements) const {
    constexpr int64_t least = 2, most = 16;
    const int64_t fitting = static_cast<int64_t>(elements()) / slot_elements;
    return std::min(chunks, std::clamp(fitting, least, most));
  }

 private:
  static constexpr int64_t most_vectors = 2 * block_vectors;
};

// The forward's scratch for a block of queries and a block of the keys that they see.
template <class T, class W = Wide<T>>
struct ForwardScratch {
  W *q, *k, *v, *queries, *scores, *y, *largest, *next, *sums;
  int32_t* starts;
  size_t bytes;

  ForwardScratch(const CausalTiling<W>& t, void* base) {
    BumpAllocator allocator(base);
    const int64_t copied = needs_copy<T>(t.D) ? t.width : 0;
    q = allocator.take<W>(t.columns * copied);
    k = allocator.take<W>(t.keys * copied);
    v = allocator.take<W>(t.keys * (needs_copy<T>(t.E) ? t.v_width : 0));
    queries = allocator.take<W>(t.D * t.columns);
    scores = allocator.take<W>(t.keys * t.columns);
    y = allocator.take<W>(t.columns * t.v_width);
    largest = allocator.take<W>(t.columns);
    next = allocator.take<W>(t.columns);
    sums = allocator.take<W>(t.columns);
    starts = allocator.take<int32_t>(t.columns);
    bytes = allocator.used();
  }
};

inline void check_positions(View positions, const CausalSizes& s) {
  const auto* at = positions.as<const int32_t>();
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t i = 0; i < s.Tq; ++i, ++at)
      check(0 <= *at && *at <= s.token(i),
            "[causal_attention] position {} of query {} in row {}: expected 0 to {}, the tokens "
            "before it",
            *at, i, n, s.token(i));
}

inline void check_lengths(View lengths, const CausalSizes& s) {
  const auto* at = lengths.as<const int32_t>();
  for (int64_t n = 0; n < s.N; ++n)
    check(1 <= at[n] && at[n] <= s.T,
          "[attention] length {} of sample {}: expected 1 to {}, the keys that there are", at[n], n,
          s.T);
}

// Returns block `index` of the queries of head h in row n. `starts` is scratch.
template <class W>
QueryBlock query_block(const CausalTiling<W>& t, int64_t n, int64_t h, int64_t index,
                       const CausalInputs& in, int32_t* starts) {
  const View& positions = in.positions;
  const int64_t first = t.vectors.begin(index) * lanes<W>,
                columns = t.vectors.size(index) * lanes<W>;
  const int64_t keys = in.lengths.data ? in.lengths.as<const int32_t>()[n] : t.T;
  QueryBlock q{n,    h,          first, std::min(columns, t.Tq - first), columns, t.token(first),
               keys, t.is_causal};
  q.key_mask = in.key_mask;
  if (!positions.data) return q;
  const int32_t* at = positions.as<const int32_t>() + n * t.Tq + first;
  for (int64_t i = 0; i < q.rows; ++i) starts[i] = static_cast<int32_t>(q.token + i) - at[i];
  std::fill(starts + q.rows, starts + columns, starts[0]);
  const auto [least, most] = std::minmax_element(starts, starts + columns);
  q.starts = starts;
  q.earliest = *least;
  q.latest = *most;
  return q;
}

// For each query the largest score so far, and the sum of the exponentials relative to it.
template <class W>
struct RunningSoftmax {
  W *largest, *next, *sums, scale;
};

// Turns scores into exponentials relative to the largest score so far, and makes the earlier sums,
// also those in y, relative to it, too.
template <class W>
void exponentiate(Matrix<W> scores, Matrix<W> y, const ScoreBlock& b, int64_t width,
                  const RunningSoftmax<W>& s) {
  std::copy_n(s.largest, b.columns, s.next);
  for (int64_t r = 0; r < b.keys; ++r) {
    const W* row = scores.data + r * scores.stride;
#pragma omp simd
    for (int64_t i = first_column<W>(b, r); i < b.columns; ++i)
      s.next[i] = std::max(s.next[i], row[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < b.columns; ++i) {
    const W factor = vector_exp(s.scale * (s.largest[i] - s.next[i]));
    s.largest[i] = s.next[i];
    s.sums[i] *= factor;
    s.next[i] = factor;
  }
  for (int64_t i = 0; i < b.queries; ++i)
    if (s.next[i] != 1)
      for (int64_t d = 0; d < width; ++d) y.data[i * y.stride + d] *= s.next[i];
  for (int64_t r = 0; r < b.keys; ++r) {
    W* row = scores.data + r * scores.stride;
#pragma omp simd
    for (int64_t i = first_column<W>(b, r); i < b.columns; ++i) {
      row[i] = vector_exp(s.scale * (row[i] - s.largest[i]));
      s.sums[i] += row[i];
    }
  }
}

template <class T>
Matrix<const T> rows_from(const Heads<const T>& x, int64_t n, int64_t t, int64_t h) {
  return {x.at(n, t, h), x.stride};
}

template <class T, class W = Wide<T>>
struct CausalForward {
  CausalTiling<W> t;
  Heads<const T> q, k, v;
  Heads<T> y;
  W* L;

  CausalForward(View y, View L, const CausalInputs& in)
      : t(CausalSizes(in)),
        q(in.q.of<const T>(t.D)),
        k(in.k.of<const T>(t.D)),
        v(in.v.of<const T>(t.E)),
        y(HeadColumns{y}.of<T>(t.E)),
        L(L.as<W>()) {}

  void attend(const QueryBlock& block, const ForwardScratch<T>& x) const {
    const int64_t n = block.n, h = block.h, first = block.first, rows = block.rows,
                  columns = block.columns;
    const int64_t g = h / t.heads_of_group();
    const auto queries = rows_of<T>(x.q, rows_from(q, n, first, h), rows, t.D);
    transpose(x.queries, columns, queries.data, queries.stride, rows, t.D);
    const Matrix<W> scores{x.scores, columns}, sums{x.y, t.v_width};
    const RunningSoftmax<W> softmax{x.largest, x.next, x.sums, static_cast<W>(t.scale())};
    std::fill_n(x.largest, columns, std::numeric_limits<W>::lowest());
    std::fill_n(x.sums, columns, W(0));
    std::fill_n(x.y, rows * t.v_width, W(0));
    for_each_block(block, [&](const ScoreBlock& b) {
      const auto keys = rows_of<T>(x.k, rows_from(k, n, b.key, g), b.keys, t.D);
      multiply_heads(scores, b, keys, {x.queries, columns}, t.D);
      hide_unseen(scores, b, block, -std::numeric_limits<W>::infinity());
      exponentiate(scores, sums, b, t.v_width, softmax);
      const auto values = rows_of<T>(x.v, rows_from(v, n, b.key, g), b.keys, t.E);
      NotFinite treatment = NotFinite::multiplied;
      if (hides_some(b, block) && !is_finite(values, b.keys, t.v_width)) {
        treatment = NotFinite::isolated;
        mark_keys(scores, b, values, t.v_width);
        hide_unseen(scores, b, block, W(0));
      }
      add_over_keys(sums, b, {x.scores, columns}, values, t.v_width, treatment);
    });
    for (int64_t i = 0; i < rows; ++i) {
      if (block.key_mask.data && x.sums[i] == 0) {  // it sees no key
        x.largest[i] = 0;
        x.sums[i] = 1;
      }
      L[(n * t.H + h) * t.Tq + first + i] = softmax.scale * x.largest[i] + std::log(x.sums[i]);
      T* out = y.at(n, first + i, h);
      for (int64_t e = 0; e < t.E; ++e) out[e] = T(x.y[i * t.v_width + e] / x.sums[i]);
    }
  }
};

}  // namespace accrue::cpu
