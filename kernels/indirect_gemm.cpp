#include "kernels/indirect_gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace accrue::cpu {
namespace {

template <class T>
using Lanes [[gnu::vector_size(vector_bytes)]] = T;

template <class T>
Lanes<T> load(const T* from) {
  Lanes<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// The block of C that stays in registers, with a vector for each of B and one for A besides.
constexpr int block_vectors = 3;
constexpr int block_rows = (vector_registers - 1 - block_vectors) / block_vectors;

template <class T, int rows, int vectors>
void multiply_block(T* c, const T* a, const T* b, const IndirectGemm& g, const int32_t* a_row,
                    Result result) {
  Lanes<T> sum[rows][vectors] = {};
  const T* a_at[rows];
  for (int m = 0; m < rows; ++m) a_at[m] = a + a_row[m];
  if (result == Result::add)
    for (int m = 0; m < rows; ++m)
      for (int v = 0; v < vectors; ++v) sum[m][v] = load(c + m * g.N + v * lanes<T>);
  for (int64_t k = 0; k < g.K; ++k) {
    const T* b_at = b + g.b_row[k];
    const int64_t column = g.a_col[k];
    Lanes<T> b_k[vectors];
    for (int v = 0; v < vectors; ++v) b_k[v] = load(b_at + v * lanes<T>);
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m)
      for (int v = 0; v < vectors; ++v) sum[m][v] += a_at[m][column] * b_k[v];
  }
  for (int m = 0; m < rows; ++m)
    for (int v = 0; v < vectors; ++v)
      std::memcpy(c + m * g.N + v * lanes<T>, &sum[m][v], sizeof(Lanes<T>));
}

template <class T>
using Block = void (*)(T*, const T*, const T*, const IndirectGemm&, const int32_t*, Result);

// blocks[(rows - 1) * block_vectors + vectors - 1]
template <class T>
constexpr auto blocks = []<size_t... i>(std::index_sequence<i...>) {
  return std::array<Block<T>, sizeof...(i)>{
      multiply_block<T, i / block_vectors + 1, i % block_vectors + 1>...};
}
(std::make_index_sequence<block_rows * block_vectors>());

// Transposes a square of vectors: swaps its off-diagonal quarters, then does so in each quarter.
template <class T, int64_t half>
void exchange_halves(Lanes<T>* v) {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  Lanes<Index> low = {}, high = {};  // indices from `lanes` on mean the second operand
  for (int64_t l = 0; l < lanes<T>; ++l) {
    low[l] = static_cast<Index>(l & half ? lanes<T> + l - half : l);
    high[l] = static_cast<Index>(l & half ? lanes<T> + l : l + half);
  }
#pragma GCC unroll 16
  for (int64_t l = 0; l < lanes<T>; ++l) {
    if (l & half) continue;
    const Lanes<T> a = v[l], b = v[l + half];
    v[l] = __builtin_shuffle(a, b, low);
    v[l + half] = __builtin_shuffle(a, b, high);
  }
  if constexpr (half > 1) exchange_halves<T, half / 2>(v);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
void indirect_gemm(T* c, const T* a, const T* b, const IndirectGemm& g, Result result) {
  // Blocks of nearly equal size: 16 rows are better as 8 + 8 than as 9 + 7.
  const int64_t vectors = g.N / lanes<T>;
  const int64_t row_blocks = ceil_div(g.M, block_rows),
                column_blocks = ceil_div(vectors, block_vectors);
  for (int64_t j = 0; j < column_blocks; ++j) {
    const int64_t v = vectors * j / column_blocks, v_end = vectors * (j + 1) / column_blocks;
    for (int64_t i = 0; i < row_blocks; ++i) {
      const int64_t m = g.M * i / row_blocks, m_end = g.M * (i + 1) / row_blocks;
      const auto block =
          blocks<T>[static_cast<size_t>((m_end - m - 1) * block_vectors + v_end - v - 1)];
      block(c + m * g.N + v * lanes<T>, a, b + v * lanes<T>, g, g.a_row + m, result);
    }
  }
}

template <class T>
void transpose(T* out, int64_t stride, const T* in, int64_t in_stride, int64_t rows,
               int64_t columns) {
  const int64_t whole = columns / lanes<T> * lanes<T>;
  for (int64_t i = 0; i < stride; i += lanes<T>) {
    for (int64_t j = 0; j < whole; j += lanes<T>) {
      Lanes<T> block[lanes<T>] = {};
      for (int64_t l = 0; l < std::min(lanes<T>, rows - i); ++l)
        block[l] = load(in + (i + l) * in_stride + j);
      exchange_halves<T, lanes<T> / 2>(block);
      for (int64_t l = 0; l < lanes<T>; ++l)
        std::memcpy(out + (j + l) * stride + i, &block[l], sizeof(Lanes<T>));
    }
    for (int64_t j = whole; j < columns; ++j)
      for (int64_t l = i; l < i + lanes<T>; ++l)
        out[j * stride + l] = l < rows ? in[l * in_stride + j] : T(0);
  }
}

template void indirect_gemm(float*, const float*, const float*, const IndirectGemm&, Result);
template void indirect_gemm(double*, const double*, const double*, const IndirectGemm&, Result);
template void transpose(float*, int64_t, const float*, int64_t, int64_t, int64_t);
template void transpose(double*, int64_t, const double*, int64_t, int64_t, int64_t);

}  // namespace accrue::cpu
