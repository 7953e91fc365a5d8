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
  const T* key_mask;

  explicit Operands(const CausalInputs& in)
      : q(in.q.of<const T>(in.heads.size)),
        k(in.k.of<const T>(in.heads.size)),
        v(in.v.of<const T>(in.heads.size)),
        positions(in.positions.data ? in.positions.as<const int32_t>() : nullptr),
        lengths(in.lengths.data ? in.lengths.as<const int32_t>() : nullptr),
        key_mask(in.key_mask.data ? in.key_mask.as<const T>() : nullptr) {}

  // The key mask of row n from a key on; null if no key is hidden.
  __device__ const T* mask_from(int64_t n, int64_t key, const CausalSizes& s) const {
    return key_mask ? key_mask + n * s.T + key : nullptr;
  }

  // The keys that queries of row n may see; all if their number is wrong.
  __device__ int keys_of(int64_t n, const CausalSizes& s) const {
    const int all = static_cast<int>(s.T);
    if (!lengths) return all;
    const int length = lengths[n];
    return 1 <= length && length <= all ? length : all;
  }
  // Behind the last key that queries of row n up to i see.
  __device__ int end_of_keys(int64_t n, int i, const CausalSizes& s) const {
    const int keys = keys_of(n, s), token = static_cast<int>(s.T - s.Tq) + i;
    return s.is_causal && token < keys ? token + 1 : keys;
  }
  // The first key that query i of row n sees; -1 if its position or the length is wrong, T if there
  // is no such query.
  __device__ int first_key(int64_t n, int i, const CausalSizes& s) const {
    const int all = static_cast<int>(s.T), queries = static_cast<int>(s.Tq);
    if (i >= queries) return all;
    if (lengths && !(1 <= lengths[n] && lengths[n] <= all)) return -1;
    if (!positions) return 0;
    const int token = all - queries + i, position = positions[n * s.Tq + i];
    return 0 <= position && position <= token ? token - position : -1;
  }
  // The first key that any of `rows` queries sees. All lanes of a warp must call it.
  __device__ int first_key_of(int rows, int64_t n, int row, const CausalSizes& s) const {
    int first = static_cast<int>(s.T);
    for (int i = threadIdx.x % warp_threads; i < rows; i += warp_threads) {
      const int of_query = first_key(n, row + i, s);
      first = of_query < first ? of_query : first;
    }
    return -warp_max(-first);
  }
};

// True if a key is seen, by its place in a mask that may be null.
template <class T>
__device__ bool is_unmasked(const T* mask, int key) {
  return !mask || Wide<T>(mask[key]) != 0;
}

// Makes the divisor of a query's sums 1 and the largest of its scores 0 if a mask leaves it no key,
// because its sums are 0.
template <class T, class W>
__device__ void finish_softmax(const Operands<T>& in, W& exponentials, W& largest) {
  if (!in.key_mask || exponentials != 0) return;
  exponentials = 1;
  largest = 0;
}

// Calls pass(treatment), which computes the sums of the block's rows. The first pass multiplies
// everything, at no cost. Only if it leaves NaN, a second one isolates, because the NaN may come
// from columns that a row does not see. All threads of the block must call it.
template <class Pass, class HasNan>
__device__ void sum_isolated(Pass&& pass, HasNan&& has_nan) {
  for (NotFinite treatment = NotFinite::multiplied;; treatment = NotFinite::isolated) {
    pass(treatment);
    if (treatment == NotFinite::isolated || !__syncthreads_or(has_nan())) return;
  }
}

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
