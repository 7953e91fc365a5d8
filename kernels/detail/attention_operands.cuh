#pragma once

#include "kernels/detail/causal_attention_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {

// Which `rows` of a head a block takes. Each head's last rows come first, because queries that see
// most keys take longest.
struct Place {
  int64_t n, h, row;

  __device__ Place(int64_t all, int64_t heads, int64_t rows) {
    const int64_t tiles = ceil_div<int64_t>(all, rows), head = blockIdx.x / tiles;
    n = head / heads;
    h = head % heads;
    row = (tiles - 1 - blockIdx.x % tiles) * rows;
  }
};

// `count` rows of a head, from the first row of a tile on.
template <class T>
struct HeadRows {
  const T* first;
  int64_t stride, count;

  __device__ HeadRows(const Heads<const T>& x, int64_t n, int64_t row, int64_t h)
      : first(x.at(n, row, h)), stride(x.stride), count(x.rows - row) {}
  // Returns 0 where the tile reaches beyond the rows or the channels.
  __device__ T operator()(int64_t r, int64_t d, int64_t D) const {
    return r < count && d < D ? first[r * stride + d] : T(Wide<T>(0));
  }
};

template <class T>
struct Operands {
  Heads<const T> q, k, v;
  const int32_t *positions, *lengths;

  explicit Operands(const CausalInputs& in)
      : q(in.q.of<const T>(in.heads.size)),
        k(in.k.of<const T>(in.heads.size)),
        v(in.v.of<const T>(in.heads.size)),
        positions(in.positions.data ? in.positions.as<const int32_t>() : nullptr),
        lengths(in.lengths.data ? in.lengths.as<const int32_t>() : nullptr) {}

  // The keys that queries of row n may see; all if their number is wrong.
  __device__ int64_t keys_of(int64_t n, const CausalSizes& s) const {
    if (!lengths) return s.T;
    const int64_t length = lengths[n];
    return 1 <= length && length <= s.T ? length : s.T;
  }
  // Behind the last key that queries of row n up to i see.
  __device__ int64_t end_of_keys(int64_t n, int64_t i, const CausalSizes& s) const {
    const int64_t keys = keys_of(n, s);
    return s.is_causal && s.token(i) + 1 < keys ? s.token(i) + 1 : keys;
  }
  // The first key that query i of row n sees; -1 if its position or the length is wrong, T if there
  // is no such query.
  __device__ int64_t first_key(int64_t n, int64_t i, const CausalSizes& s) const {
    if (i >= s.Tq) return s.T;
    if (lengths && !(1 <= lengths[n] && lengths[n] <= s.T)) return -1;
    if (!positions) return 0;
    const int64_t token = s.token(i), position = positions[n * s.Tq + i];
    return 0 <= position && position <= token ? token - position : -1;
  }
  // The first key that any of `rows` queries sees. All lanes of a warp must call it.
  __device__ int64_t first_key_of(int64_t rows, int64_t n, int64_t row,
                                  const CausalSizes& s) const {
    int64_t first = s.T;
    for (int64_t i = threadIdx.x % warp_threads; i < rows; i += warp_threads) {
      const int64_t of_query = first_key(n, row + i, s);
      first = of_query < first ? of_query : first;
    }
    return -warp_max(-first);
  }
};

// The values with which backward begins.
template <class T>
struct OutputGradient {
  Heads<const T> dy;
  const Wide<T>*L, *t;  // [N, H, Tq]
};

// Where a gradient is stored; `to` has no data if the gradient is not wanted.
template <class T>
struct Target {
  Heads<T> to;
  float beta;

  Target(const HeadTarget& x, int64_t D)
      : to(x ? x.of<T>(D) : Heads<T>{}), beta(x ? x.target->beta : 0) {}
  Target(View y, int64_t D) : to(HeadColumns{y}.of<T>(D)), beta(0) {}
};

}  // namespace accrue::cuda
