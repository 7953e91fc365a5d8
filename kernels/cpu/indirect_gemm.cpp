#include "kernels/cpu/indirect_gemm.h"

#include <algorithm>
#include <utility>

namespace accrue::cpu {

bool multiplies_bfloat16_pairs() {
#ifdef __AVX512BF16__
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#else
  return false;
#endif
}

namespace {

template <class T>
using Sum = typename Arithmetic<T>::Sum;
template <class T>
using Left = typename Arithmetic<T>::Left;

template <class T, int rows, int vectors>
void indirect_block(Sum<T>* c, const Left<T>* a, const T* b, const IndirectGemm& g, Result result) {
  Lanes<Sum<T>> sum[rows][vectors] = {};
  const Left<T>* a_at[rows];
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m) a_at[m] = a + g.a_row[m];
  if (result == Result::add) {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sum[m][v] = load(c + m * g.N + v * lanes<T>);
  }
  multiply_block<T, rows, vectors>(
      sum, g.K, [&](int m, int64_t k) { return Arithmetic<T>::left(a_at[m] + g.a_col[k]); },
      [&](int64_t k) { return b + g.b_row[k]; });
  store_block(c, g.N, sum);
}

template <class T>
using Block = void (*)(Sum<T>*, const Left<T>*, const T*, const IndirectGemm&, Result);
template <class T>
constexpr auto blocks = make_blocks<Block<T>>(
    []<int rows, int vectors>(std::integral_constant<int, rows>,
                              std::integral_constant<int, vectors>) -> Block<T> {
      return indirect_block<T, rows, vectors>;
    });

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
void indirect_gemm(Sum<T>* c, const Left<T>* a, const T* b, const IndirectGemm& g, Result result) {
  // The parts of K are as long as the first-level cache allows: a block's rows of B stay there for
  // the next block.
  const Partition rows(g.M, block_rows), columns(g.N / lanes<T>, vectors_beside(g.M)),
      depth(g.K, 320);
  for (int64_t j = 0; j < columns.parts; ++j)
    for (int64_t p = 0; p < depth.parts; ++p)
      for (int64_t i = 0; i < rows.parts; ++i) {
        const int64_t v = columns.begin(j) * lanes<T>, k = depth.begin(p), m = rows.begin(i);
        const IndirectGemm block{rows.size(i), g.N,         depth.size(p),
                                 g.a_row + m,  g.a_col + k, g.b_row + k};
        blocks<T>[block_index(block.M, columns.size(j))](c + m * g.N + v, a, b + v, block,
                                                         p == 0 ? result : Result::add);
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
      for (int64_t l = 0; l < lanes<T>; ++l) store_lanes(out + (j + l) * stride + i, block[l]);
    }
    for (int64_t j = whole; j < columns; ++j)
      for (int64_t l = i; l < i + lanes<T>; ++l)
        out[j * stride + l] = l < rows ? in[l * in_stride + j] : T(0);
  }
}

template void indirect_gemm<float>(float*, const float*, const float*, const IndirectGemm&, Result);
template void indirect_gemm<double>(double*, const double*, const double*, const IndirectGemm&,
                                    Result);
template void indirect_gemm<BFloat16Pair>(float*, const BFloat16*, const BFloat16Pair*,
                                          const IndirectGemm&, Result);
template void transpose(BFloat16Pair*, int64_t, const BFloat16Pair*, int64_t, int64_t, int64_t);
template void transpose(float*, int64_t, const float*, int64_t, int64_t, int64_t);
template void transpose(double*, int64_t, const double*, int64_t, int64_t, int64_t);

}  // namespace accrue::cpu
