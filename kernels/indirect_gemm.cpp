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
void multiply_block(T* c, const T* a, const T* b, const IndirectGemm& g, Result result) {
  Lanes<T> sum[rows][vectors] = {};
  const T* a_at[rows];
  for (int m = 0; m < rows; ++m) a_at[m] = a + g.a_row[m];
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
using Block = void (*)(T*, const T*, const T*, const IndirectGemm&, Result);

// blocks[(rows - 1) * block_vectors + vectors - 1]
template <class T>
constexpr auto blocks = []<size_t... i>(std::index_sequence<i...>) {
  return std::array<Block<T>, sizeof...(i)>{
      multiply_block<T, i / block_vectors + 1, i % block_vectors + 1>...};
}
(std::make_index_sequence<block_rows * block_vectors>());

// `count` things in as few parts of at most `limit` as possible, nearly equal in size.
struct Split {
  int64_t count, parts;

  Split(int64_t count, int64_t limit)
      : count(count), parts(std::max<int64_t>(1, (count + limit - 1) / limit)) {}
  int64_t begin(int64_t part) const { return count * part / parts; }
  int64_t size(int64_t part) const { return begin(part + 1) - begin(part); }
};

// Transposes a square of vectors: swaps its off-diagonal quarters, then does so in each quarter.
template <class T, size_t half, size_t... l>
void exchange_quarters(Lanes<T>* v, std::index_sequence<l...> lane) {
  constexpr size_t L = sizeof...(l);
#pragma GCC unroll 16
  for (size_t i = 0; i < L; ++i) {
    if (i & half) continue;
    const Lanes<T> a = v[i], b = v[i + half];  // indices from L on mean b
    v[i] = __builtin_shufflevector(a, b, (l & half ? L + l - half : l)...);
    v[i + half] = __builtin_shufflevector(a, b, (l & half ? L + l : l + half)...);
  }
  if constexpr (half > 1) exchange_quarters<T, half / 2>(v, lane);
}

}  // namespace

template <class T>
void indirect_gemm(T* c, const T* a, const T* b, const IndirectGemm& g, Result result) {
  // Parts of nearly equal size: 16 rows are better as 8 + 8 than as 9 + 7. A part of K is so long
  // that a block's rows of B stay in the first-level cache for the next block.
  const Split rows(g.M, block_rows), columns(g.N / lanes<T>, block_vectors), depth(g.K, 320);
  for (int64_t p = 0; p < depth.parts; ++p) {
    const int64_t k = depth.begin(p);
    for (int64_t j = 0; j < columns.parts; ++j) {
      const int64_t v = columns.begin(j) * lanes<T>;
      for (int64_t i = 0; i < rows.parts; ++i) {
        const int64_t m = rows.begin(i);
        const IndirectGemm block{rows.size(i), g.N,         depth.size(p),
                                 g.a_row + m,  g.a_col + k, g.b_row + k};
        const auto index = (block.M - 1) * block_vectors + columns.size(j) - 1;
        blocks<T>[static_cast<size_t>(index)](c + m * g.N + v, a, b + v, block,
                                              p == 0 ? result : Result::add);
      }
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
      exchange_quarters<T, lanes<T> / 2>(block, std::make_index_sequence<lanes<T>>());
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
