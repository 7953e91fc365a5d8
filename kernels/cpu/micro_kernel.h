#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/ceil_div.h"
#include "core/inside.h"

namespace accrue::cpu {

// The size and number of the vector registers that the compiler may use.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, vector_registers = 32;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, vector_registers = 16;
#else
inline constexpr int vector_bytes = 16, vector_registers = 16;
#endif
template <class T>
inline constexpr int64_t lanes = vector_bytes / sizeof(T);

template <class T>
using Lanes [[gnu::vector_size(vector_bytes)]] = T;

template <class T>
Lanes<T> load(const T* from) {
  Lanes<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T, class V>
void store_lanes(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

// Keeps the compiler from reading v from memory again for each use. GCC 12 does so with AVX2's 16
// registers, and a block then waits for its loads, not for its multiplications.
template <class T>
[[gnu::always_inline]] inline void keep_in_register([[maybe_unused]] Lanes<T>& v) {
#if defined(__AVX__)
  asm("" : "+v"(v));
#endif
}

// Lane l of the result is the sum of v[l]'s lanes. The sums form a tree: the upper half is added to
// the lower half, and so on. Each step joins two vectors, in which 2 * half lanes belong to each
// sum, into one.
template <class T, int half = int{lanes<T>} / 2>
[[gnu::always_inline]] inline Lanes<T> sums_of_lanes(const Lanes<T> (&v)[2 * half]) {
  return [&]<int... l>(std::integer_sequence<int, l...>) __attribute__((always_inline)) {
    Lanes<T> halved[half];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      const Lanes<T>&a = v[2 * i], &b = v[2 * i + 1];  // in both, 2 * half lanes to a sum
      halved[i] = __builtin_shufflevector(a, b, (l / half * 2 * half + l % half)...) +
                  __builtin_shufflevector(a, b, (l / half * 2 * half + half + l % half)...);
    }
    if constexpr (half == 1) return halved[0];
    else return sums_of_lanes<T, half / 2>(halved);
  }
  (std::make_integer_sequence<int, int{lanes<T>}>());
}

// Whether a product replaces the target (c = product) or is added to it (c += product).
enum class Result { write, add };

// The size of the block of C = A B that stays in registers, beside one row of B's vectors and one
// vector for A.
inline constexpr int block_vectors = 3;
inline constexpr int block_rows = (vector_registers - 1 - block_vectors) / block_vectors;

// How elements T are multiplied: the type of their sums, and the type that a left factor has in
// memory.
template <class T>
struct Arithmetic {
  using Sum = T;
  using Left = T;
  [[gnu::always_inline]] static T left(const T* a) { return *a; }
  [[gnu::always_inline]] static void add_product(Lanes<T>& sum, T a, const Lanes<T>& b) {
    sum += a * b;
  }
};

// sum[m][v] += sum_k a(m, k) * b(k)[v * lanes + (0 to lanes - 1)] for k < K, in the order of k. The
// bits of an element therefore do not depend on the block that it is in.
template <class T, int rows, int vectors, class Left, class Right>
[[gnu::always_inline]] inline void multiply_block(
    Lanes<typename Arithmetic<T>::Sum> (&sum)[rows][vectors], int64_t K, Left a, Right b) {
  constexpr bool fits = rows * vectors + vectors + 1 <= vector_registers;
  for (int64_t k = 0; k < K; ++k) {
    const T* b_at = b(k);
    Lanes<T> b_k[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      b_k[v] = load(b_at + v * lanes<T>);
      if constexpr (fits) keep_in_register<T>(b_k[v]);
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      const T a_mk = a(m, k);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) Arithmetic<T>::add_product(sum[m][v], a_mk, b_k[v]);
    }
  }
}

// c = sum, its rows `stride` elements apart.
template <class T, class V, int rows, int vectors>
[[gnu::always_inline]] inline void store_block(T* c, int64_t stride,
                                               const V (&sum)[rows][vectors]) {
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) store_lanes(c + m * stride + v * lanes<T>, sum[m][v]);
}

// Few rows leave registers for more of B's vectors.
constexpr int64_t vectors_beside(int64_t rows) {
  return 2 * rows <= block_rows ? 2 * block_vectors : block_vectors;
}

// Makes a table of of(rows, vectors) for the constants 1 <= rows <= block_rows and 1 <= vectors <=
// vectors_beside(rows). block_index() gives the place of an entry.
inline constexpr int table_vectors = 2 * block_vectors;
template <class Function, class Make>
constexpr auto make_blocks(Make of) {
  return [of]<size_t... i>(std::index_sequence<i...>) {
    return std::array<Function, sizeof...(i)>{
        of(std::integral_constant<int, i / table_vectors + 1>(),
           std::integral_constant<int, std::min<int>(i % table_vectors + 1,
                                                     vectors_beside(i / table_vectors + 1))>())...};
  }
  (std::make_index_sequence<block_rows * table_vectors>());
}
inline size_t block_index(int64_t rows, int64_t vectors) {
  return static_cast<size_t>((rows - 1) * table_vectors + vectors - 1);
}

// Cuts `count` things into as few parts of at most `limit` as possible, nearly equal in size: 16
// rows are better cut into 8 + 8 than into 9 + 7.
class Partition {
 public:
  Partition(int64_t count, int64_t limit)
      : parts(std::max<int64_t>(1, ceil_div(count, limit))),
        size_(count / parts),
        larger_(count % parts) {}
  int64_t parts;

  int64_t begin(int64_t part) const { return part * size_ + std::min(part, larger_); }
  int64_t size(int64_t part) const { return size_ + (part < larger_ ? 1 : 0); }

 private:
  int64_t size_, larger_;
};

}  // namespace accrue::cpu
