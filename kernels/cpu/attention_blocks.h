#pragma once

#include <algorithm>
#include <limits>

#include "core/half.h"
#include "kernels/cpu/gemm.h"
#include "kernels/detail/causal_attention_kernels.h"

// One thread computes the matrix of scores of a head block by block. Rows are keys and columns are
// queries: this way the products read all operands as they lie, except for the queries, which are
// transposed once for all of their blocks. The softmax then needs no sums over a vector's lanes.
namespace accrue::cpu {

// Queries of a head that are computed together.
struct QueryBlock {
  int64_t n, h, first, rows;
  int64_t columns;  // rows, rounded up to whole vectors
  int64_t token;    // of the first query, where attention is causal
  int64_t keys;     // that queries of the sample may see
  bool is_causal;
  const int32_t* starts = nullptr;   // [columns]: the token that begins a query's document; or null
  int64_t earliest = 0, latest = 0;  // the least and the largest of the starts; 0 without them
  View key_mask = {};                // [N, T]; has no data if no key is hidden

  // True if the key mask hides this key.
  bool hides(int64_t key) const {
    return key_mask.data && dispatch_floating(key_mask.dtype, [&]<class T>() {
             return key_mask.as<const T>()[n * key_mask.shape[1] + key] == Wide<T>(0);
           });
  }
};

// The part of the matrix for some keys and the queries of a block.
struct ScoreBlock {
  int64_t key, keys, queries, columns;
  // True: only query r, the same token as key r, and later queries see key r. False: all do.
  bool on_diagonal;
};

inline constexpr int64_t most_keys = 96;

// Calls body(block) for the keys that the queries see, in order.
template <class Body>
void for_each_block(const QueryBlock& q, Body&& body) {
  const int64_t end = q.is_causal ? std::min(q.token, q.keys) : q.keys;
  const Partition before(end - q.earliest, most_keys);
  for (int64_t b = 0; b < before.parts; ++b)
    if (before.size(b) > 0)
      body(ScoreBlock{q.earliest + before.begin(b), before.size(b), q.rows, q.columns, false});
  if (!q.is_causal || q.keys <= q.token) return;
  body(ScoreBlock{q.token, std::min(q.rows, q.keys - q.token), q.rows, q.columns, true});
}

// On the diagonal the products run in strips, which leave out most pairs that do not see each
// other.
template <class W>
inline constexpr int64_t strip = lanes<W>;

// Calls body(begin, size) for strips of `count` keys or queries.
template <class W, class Body>
void for_each_strip(const ScoreBlock& b, int64_t count, Body&& body) {
  const int64_t most = b.on_diagonal ? strip<W> : count;
  for (int64_t begin = 0; begin < count; begin += most) body(begin, std::min(most, count - begin));
}
// The first column that is computed in the row of key r.
template <class W>
int64_t first_column(const ScoreBlock& b, int64_t r) {
  return b.on_diagonal ? r / strip<W> * strip<W> : 0;
}

template <class W>
bool is_finite(Matrix<const W> x, int64_t rows, int64_t width) {
  W zero = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const W* row = x.data + r * x.stride;
#pragma omp simd reduction(+ : zero)
    for (int64_t d = 0; d < width; ++d) zero += 0 * row[d];
  }
  return zero == 0;
}

// C = op(A) B, or C + op(A) B, where a row of B may have any number of vectors. With
// NotFinite::isolated, elements of B that are not finite count as 0.
template <class W>
void multiply(Matrix<W> c, Matrix<const W> a, Transpose a_op, Matrix<const W> b,
              const GemmSize& size, Result result, NotFinite treatment = NotFinite::multiplied) {
  constexpr int64_t most_columns = block_vectors * lanes<W>;
  static_assert(2 * most_columns <= most_keys, "so there are at most that many rows of B");
  W finite[most_keys * most_columns];
  const Partition panels(size.N / lanes<W>, block_vectors);
  for (int64_t p = 0; p < panels.parts; ++p) {
    const int64_t column = panels.begin(p) * lanes<W>, columns = panels.size(p) * lanes<W>;
    Matrix<const W> panel = b.from(0, column);
    if (treatment == NotFinite::isolated) {
      for (int64_t k = 0; k < size.K; ++k)
        for (int64_t n = 0; n < columns; ++n) {
          const W value = panel.data[k * panel.stride + n];
          finite[k * columns + n] = 0 * value == 0 ? value : 0;
        }
      panel = {finite, columns};
    }
    multiply_panel(c.from(0, column), a, a_op, panel, {size.M, columns, size.K}, result);
  }
}

// out[r, i] = sum_d keys[r, d] * queries[d, i].
template <class W>
void multiply_heads(Matrix<W> out, const ScoreBlock& b, Matrix<const W> keys,
                    Matrix<const W> queries, int64_t D) {
  for_each_strip<W>(b, b.keys, [&](int64_t r, int64_t size) {
    const int64_t i = first_column<W>(b, r);
    multiply(out.from(r, i), keys.from(r, 0), Transpose::no, queries.from(0, i),
             {size, b.columns - i, D}, Result::write);
  });
}

// out[r, d] += sum_i x[r, i] * queries[i, d], for `width` channels d.
template <class W>
void add_over_queries(Matrix<W> out, const ScoreBlock& b, Matrix<const W> x,
                      Matrix<const W> queries, int64_t width, NotFinite treatment) {
  for_each_strip<W>(b, b.keys, [&](int64_t r, int64_t size) {
    const int64_t i = first_column<W>(b, r);
    multiply(out.from(r, 0), x.from(r, i), Transpose::no, queries.from(i, 0),
             {size, width, b.queries - i}, Result::add, treatment);
  });
}

// out[i, d] += sum_r x[r, i] * keys[r, d].
template <class W>
void add_over_keys(Matrix<W> out, const ScoreBlock& b, Matrix<const W> x, Matrix<const W> keys,
                   int64_t width, NotFinite treatment) {
  for_each_strip<W>(b, b.queries, [&](int64_t i, int64_t size) {
    const int64_t seen = b.on_diagonal ? std::min(b.keys, i + size) : b.keys;
    multiply(out.from(i, 0), x.from(0, i), Transpose::yes, keys, {size, width, seen}, Result::add,
             treatment);
  });
}

// True if some query of the block does not see some key.
inline bool hides_some(const ScoreBlock& b, const QueryBlock& q) {
  return b.on_diagonal || (q.starts && b.key < q.latest) || q.key_mask.data;
}

// Sets the values of keys that a query does not see.
template <class W>
void hide_unseen(Matrix<W> x, const ScoreBlock& b, const QueryBlock& q, W hidden) {
  for (int64_t r = 0; r < b.keys; ++r) {
    W* row = x.data + r * x.stride;
    const int64_t first = first_column<W>(b, r);
    if (q.hides(b.key + r)) {
      std::fill(row + first, row + b.columns, hidden);
      continue;
    }
    if (b.on_diagonal) std::fill(row + first, row + r, hidden);
    if (!q.starts || b.key + r >= q.latest) continue;
    const auto key = static_cast<int32_t>(b.key + r);
#pragma omp simd
    for (int64_t i = first; i < b.columns; ++i) row[i] = q.starts[i] > key ? hidden : row[i];
  }
}

// Prepare weights for products that isolate rows of keys, or of queries, with values that are not
// finite: the weights of these rows become NaN. hide_unseen() must follow.
template <class W>
void mark_keys(Matrix<W> x, const ScoreBlock& b, Matrix<const W> keys, int64_t width) {
  for (int64_t r = 0; r < b.keys; ++r)
    if (!is_finite(keys.from(r, 0), 1, width))
      std::fill_n(x.data + r * x.stride, b.columns, std::numeric_limits<W>::quiet_NaN());
}
template <class W>
void mark_queries(Matrix<W> x, const ScoreBlock& b, Matrix<const W> queries, int64_t width) {
  for (int64_t i = 0; i < b.queries; ++i)
    if (!is_finite(queries.from(i, 0), 1, width))
      for (int64_t r = 0; r < b.keys; ++r)
        x.data[r * x.stride + i] = std::numeric_limits<W>::quiet_NaN();
}

// Returns the rows that products read: x itself, or a copy in the type of the sums, padded to whole
// vectors.
template <class T>
bool needs_copy(int64_t D) {
  return is_16_bit<T> || D % lanes<Wide<T>> != 0;
}
template <class T, class W = Wide<T>>
Matrix<const W> rows_of(W* copy, Matrix<const T> x, int64_t rows, int64_t D) {
  if constexpr (!is_16_bit<T>)
    if (!needs_copy<T>(D)) return x;
  const int64_t width = round_up(D, lanes<W>);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < D; ++d) copy[r * width + d] = x.data[r * x.stride + d];
    std::fill(copy + r * width + D, copy + (r + 1) * width, W(0));
  }
  return {copy, width};
}

}  // namespace accrue::cpu
