#include "kernels/cpu/dot_gemm.h"

#include <array>
#include <utility>

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

constexpr int64_t dot_rows = 4, dot_columns = 6;  // of a block

template <class T, int rows, int columns>
void dot_block(T* c, const Gemm<T>& p, const T* a, const T* b) {
  Lanes<T> sum[rows][columns] = {};
  const int64_t a_stride = p.row_of_a(), c_stride = p.row_of_c();
  const int64_t whole = p.K / lanes<T> * lanes<T>;
  for (int64_t k = 0; k < whole; k += lanes<T>) {
    Lanes<T> b_k[columns];
#pragma GCC unroll 16
    for (int n = 0; n < columns; ++n) b_k[n] = load(b + n * p.K + k);
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      const Lanes<T> a_k = load(a + m * a_stride + k);
#pragma GCC unroll 16
      for (int n = 0; n < columns; ++n) sum[m][n] += a_k * b_k[n];
    }
  }
  constexpr int count = rows * columns, L = int{lanes<T>};
  T sums[round_up(count, L)];
#pragma GCC unroll 16
  for (int i = 0; i < count; i += L) {
    Lanes<T> some[L] = {};
#pragma GCC unroll 16
    for (int l = 0; l < L; ++l)
      if (i + l < count) some[l] = sum[(i + l) / columns][(i + l) % columns];
    store_lanes(sums + i, sums_of_lanes<T>(some));
  }
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < columns; ++n) {
      T value = sums[m * columns + n];
      for (int64_t k = whole; k < p.K; ++k) value += a[m * a_stride + k] * b[n * p.K + k];
      if (p.bias) value += p.bias[n];
      T& out = c[m * c_stride + n];
      out = blend(activate(p.activation, value), p.beta, out);
    }
}

}  // namespace

template <class T>
void dot_gemm(T* c, const T* a, const T* b, const Gemm<T>& p) {
  using Dot = void (*)(T*, const Gemm<T>&, const T*, const T*);
  static constexpr auto dots = []<size_t... i>(std::index_sequence<i...>) {
    return std::array<Dot, sizeof...(i)>{dot_block<T, i / dot_columns + 1, i % dot_columns + 1>...};
  }
  (std::make_index_sequence<dot_rows * dot_columns>());
  const Partition rows(p.M, dot_rows), columns(p.N, dot_columns);
  parallel_each(columns.parts, dot_columns * p.K * rows.parts, [&](int64_t column) {
    for (int64_t row = 0; row < rows.parts; ++row) {
      const int64_t m = rows.begin(row), n = columns.begin(column);
      Gemm<T> part = p;
      if (p.bias) part.bias = p.bias + n;
      dots[static_cast<size_t>((rows.size(row) - 1) * dot_columns + columns.size(column) - 1)](
          c + m * p.row_of_c() + n, part, a + m * p.row_of_a(), b + n * p.K);
    }
  });
}

template void dot_gemm(float*, const float*, const float*, const Gemm<float>&);
template void dot_gemm(double*, const double*, const double*, const Gemm<double>&);

}  // namespace accrue::cpu
