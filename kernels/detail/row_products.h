#pragma once

#include <algorithm>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/detail/reduce.h"

namespace accrue {

// A matrix [O, K] whose rows are each cut into equal pieces for a sum, so that few long rows keep
// all threads busy. The shape alone decides the pieces.
struct RowPieces {
  int64_t O, K, pieces;

  RowPieces(int64_t O, int64_t K) : O(O), K(K) {
    constexpr int64_t piece = 16384;
    pieces = std::max<int64_t>(1, ceil_div(K, piece));
  }
  HOST_DEVICE int64_t count() const { return O * pieces; }
  // The first column of piece p of a row.
  HOST_DEVICE int64_t begin(int64_t p) const { return K * p / pieces; }
};

inline Tensor row_products_scratch(int64_t count, Device device) {
  return Tensor::empty({count}, DType::f64, device, Category::workspace);
}

namespace cpu {

// Calls body(i, o, begin, end) for each piece i: columns [begin, end) of row o.
template <class Body>
void for_each_row_piece(const RowPieces& cut, Body&& body) {
  parallel_for(cut.count(), cut.K / cut.pieces, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t p = i % cut.pieces;
      body(i, i / cut.pieces, cut.begin(p), cut.begin(p + 1));
    }
  });
}

// sums[i] = sum_k a[o, k] * b[o, k] over each piece i. With b_stride 0, b is one row for all o.
template <class T>
void row_products(double* sums, const T* a, const T* b, int64_t b_stride, const RowPieces& cut) {
  for_each_row_piece(cut, [&](int64_t i, int64_t o, int64_t begin, int64_t end) {
    const T *left = a + o * cut.K + begin, *right = b + o * b_stride + begin;
    sums[i] = sum_of<Wide<T>>(end - begin, [=](int64_t k) { return left[k] * right[k]; });
  });
}

}  // namespace cpu
}  // namespace accrue
